"""sys.exit while it is imported."""

from conftest import HEADER


def test_sys_exit(judge):
    verdict = judge(
        HEADER
        + """
import sys
sys.exit(0)
class ModelNew(nn.Module):
    def forward(self, x):
        return launch(x)
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "import_error" and "SystemExit" in verdict["diagnostics"], verdict
