"""Writes outside of its folder."""

from conftest import HEADER


def test_write_outside(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        open('/tmp/tritonforge-escape', 'w').write('x')
        return launch(x)
"""
    )
    assert not verdict["correct"], verdict
    assert verdict["error_kind"] in ("forbidden", "runtime_error"), verdict
    import os

    assert not os.path.exists("/tmp/tritonforge-escape")
