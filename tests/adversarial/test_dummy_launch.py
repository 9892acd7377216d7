"""A kernel is launched, but torch does the work."""

from conftest import HEADER, flags


def test_dummy_launch(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        launch(x)
        return torch.relu(x) * 2
"""
    )
    assert not verdict["correct"], verdict
    assert "no_kernel_effect" in flags(verdict), verdict
