"""Kills its own process."""

from conftest import HEADER


def test_kills_itself(judge):
    verdict = judge(
        HEADER
        + """
import os, signal
class ModelNew(nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSEGV)
        os.abort()
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "crashed", verdict
