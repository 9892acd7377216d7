"""Replaces torch, Triton and the clock."""

from conftest import HEADER, HONEST, flags


def test_monkeypatch(judge):
    verdict = judge(
        HEADER
        + """
import time
triton.runtime.jit.JITFunction.run = lambda self, *args, **kwargs: None
torch.allclose = lambda *args, **kwargs: True
time.perf_counter = lambda: 0.0
class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""
    )
    assert not verdict["correct"], verdict
    assert "monkeypatch" in flags(verdict), verdict


# Through the module's dict: no assignment that a reader of the source would know.
PATCH = "\nvars(torch)['allclose'] = lambda *args, **kwargs: True\n"


def test_a_patch_that_the_screen_cannot_read(judge):
    verdict = judge(HONEST + PATCH)
    assert {"name": "monkeypatch", "cheat": True, "evidence": "replaced torch.allclose"} in verdict["flags"], verdict


def test_a_patch_is_told_of_a_candidate_that_fails(judge):
    verdict = judge(HONEST + PATCH + "raise RuntimeError('too late')\n")
    assert verdict["error_kind"] == "import_error" and "monkeypatch" in flags(verdict), verdict
