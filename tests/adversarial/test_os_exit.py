"""Ends with status 0 while it is imported, as if all were well."""

from conftest import HEADER


def test_os_exit(judge):
    verdict = judge(
        HEADER
        + """
import os
os._exit(0)
class ModelNew(nn.Module):
    def forward(self, x):
        return launch(x)
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "crashed" and "exit status 0" in verdict["diagnostics"], verdict
