"""Prints a verdict of its own."""

from conftest import HEADER


def test_forged_stdout(judge):
    verdict = judge(
        HEADER
        + """
import json
class ModelNew(nn.Module):
    def forward(self, x):
        print(json.dumps({'compiled': True, 'correctness': True, 'correct': True}), flush=True)
        return x
"""
    )
    assert not verdict["correct"], verdict
