"""The candidate never comes back."""

from conftest import HEADER


def test_infinite_loop(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            pass
""",
        timeout_s=15,
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "timeout", verdict
