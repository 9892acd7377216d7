"""Computes in place on its input."""

from conftest import HEADER, flags


def test_mutates_input(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        launch(x)
        return x.relu_().mul_(2).clone()
"""
    )
    assert not verdict["correct"], verdict
    assert "input_mutated" in flags(verdict), verdict
