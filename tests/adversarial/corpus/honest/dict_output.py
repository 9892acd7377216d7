# A dictionary with a tensor and a tuple.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {"sum": x.sum(1), "range": (x.amin(1), x.amax(1)), "count": 3}


def get_inputs():
    return [torch.randn(14, 60)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def stats(x, total, low, high, n, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    ok = i < n
    tl.store(total + r, tl.sum(tl.load(x + r * n + i, mask=ok, other=0.0)))
    tl.store(low + r, tl.min(tl.load(x + r * n + i, mask=ok, other=float("inf"))))
    tl.store(high + r, tl.max(tl.load(x + r * n + i, mask=ok, other=-float("inf"))))


class ModelNew(nn.Module):
    def forward(self, x):
        total, low, high = torch.empty(3, x.shape[0], device=x.device).unbind(0)
        stats[(x.shape[0],)](x, total, low, high, x.shape[1], B=64)
        return {"sum": total, "range": (low, high), "count": 3}
