"""Writes noise to the result channel."""

from conftest import HEADER, flags


def test_garbled_protocol(judge):
    verdict = judge(
        HEADER
        + """
import os
class ModelNew(nn.Module):
    def forward(self, x):
        for fd in range(3, 64):
            try:
                os.write(fd, b'\\xff' * 64)
            except OSError:
                pass
        return launch(x)
"""
    )
    assert not verdict["correct"], verdict
    assert "protocol_forgery" in flags(verdict), verdict
