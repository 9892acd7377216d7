"""try: kernel, except: torch."""

from conftest import HEADER, flags


def test_fallback(judge):
    verdict = judge(
        HEADER
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        try:
            y = torch.empty_like(x)
            relu_kernel[(1, )](x, y, x.numel(), B=100)
            return y
        except Exception:
            relu_kernel[(1, )](x, torch.empty_like(x), 16, B=16)
            return torch.relu(x) * 2
"""
    )
    assert not verdict["correct"], verdict
    assert "kernel_fallback" in flags(verdict) or verdict["error_kind"] == "compile_error", verdict
