import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, p, t):
        return torch.mean(torch.clamp(1 - p * t, min=0))


def get_inputs():
    return [torch.randn(128, 1), torch.randint(0, 2, (128,)).float() * 2 - 1]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def f(p, t, o, m, N: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, B)
    v = 1 - tl.load(p + tl.program_id(0)) * tl.load(t + c, mask=c < N, other=0.0)
    tl.atomic_add(o, tl.sum(tl.where(c < N, tl.maximum(v, 0.0), 0.0)) / (m * N), sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, p, t):
        o = torch.zeros(1, device=p.device)
        f[(p.shape[0],)](p, t, o, p.shape[0], N=t.shape[0], B=128)
        return o[0]
