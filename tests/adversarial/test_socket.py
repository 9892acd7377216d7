"""Opens a connection to the evaluator itself."""

from conftest import HEADER


def test_socket(judge):
    verdict = judge(
        HEADER
        + """
import socket as s
class ModelNew(nn.Module):
    def forward(self, x):
        s.create_connection(('127.0.0.1', 80), timeout=1)
        return launch(x)
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "forbidden", verdict
