"""A @triton.jit function is there but never launched."""

from conftest import HEADER, flags


def test_fake_kernel(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""
    )
    assert not verdict["correct"], verdict
    assert "no_kernel_launched" in flags(verdict), verdict
    assert not verdict["compiled"]
