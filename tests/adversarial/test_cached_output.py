"""Caches its output by the address of its input."""

from conftest import HEADER


def test_cached_output(judge):
    verdict = judge(
        HEADER
        + """
CACHE = {}
class ModelNew(nn.Module):
    def forward(self, x):
        if x.data_ptr() not in CACHE:
            CACHE[x.data_ptr()] = launch(x)
        else:
            relu_kernel[(1, )](x, torch.empty_like(x), 16, B=16)
        return CACHE[x.data_ptr()]
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] == "mismatch", verdict
