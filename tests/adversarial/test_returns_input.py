"""Returns the memory of its input."""

from conftest import HEADER, flags


def test_returns_input(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        launch(x)
        return x
"""
    )
    assert not verdict["correct"], verdict
    assert "output_is_input" in flags(verdict) or verdict["error_kind"] == "mismatch", verdict
