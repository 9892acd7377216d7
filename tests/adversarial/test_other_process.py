"""Looks for other processes and their memory."""

from conftest import HEADER


def test_other_process(judge):
    verdict = judge(
        HEADER
        + """
import os
class ModelNew(nn.Module):
    def forward(self, x):
        pids = [p for p in os.listdir('/proc') if p.isdigit()]
        assert pids == [str(os.getpid())] or not pids, pids
        raise RuntimeError('alone: ' + open('/proc/self/environ', 'rb').read().decode().replace(chr(0), ' '))
"""
    )
    assert not verdict["correct"], verdict
    assert "alone" in verdict["diagnostics"] and "hunter2" not in verdict["diagnostics"], verdict
