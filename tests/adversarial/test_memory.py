"""Allocates without end."""

from conftest import HEADER


def test_allocates_without_end(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        held = []
        while True:
            held.append(torch.ones(1 << 24))
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "out_of_memory", verdict
