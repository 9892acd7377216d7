"""Forks without end."""

from conftest import HEADER


def test_fork_bomb(judge):
    verdict = judge(
        HEADER
        + """
import os
class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            os.fork()
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "forbidden", verdict
