import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 4, bias=False)
        self.w = nn.Parameter(torch.randn(4, 32, 24) * 0.1)
    def forward(self, x):
        p = self.gate(x).softmax(-1)
        v, e = p.max(-1)
        return v[:, None] * torch.bmm(x[:, None], self.w[e])[:, 0]


def get_inputs():
    return [torch.randn(30, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def moe(x, g, w, y, D: tl.constexpr, E: tl.constexpr, O: tl.constexpr, BO: tl.constexpr):
    t = tl.program_id(0)
    d, e, o = tl.arange(0, D), tl.arange(0, E), tl.arange(0, BO)
    xv = tl.load(x + t * D + d)
    logits = tl.sum(tl.load(g + e[:, None] * D + d[None, :]) * xv[None, :], 1)
    m, which = tl.max(logits, 0, return_indices=True)
    p = 1.0 / tl.sum(tl.exp(logits - m), 0)
    ww = tl.load(w + which * D * O + d[:, None] * O + o[None, :], mask=o[None, :] < O, other=0.0)
    tl.store(y + t * O + o, p * tl.sum(ww * xv[:, None], 0), mask=o < O)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 4, bias=False)
        self.w = nn.Parameter(torch.randn(4, 32, 24) * 0.1)
    def forward(self, x):
        y = torch.empty(x.shape[0], 24, device=x.device, dtype=x.dtype)
        moe[(len(x),)](x, self.gate.weight, self.w, y, 32, 4, 24, 32)
        return y
