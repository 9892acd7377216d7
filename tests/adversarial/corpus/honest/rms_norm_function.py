# Functions only; bfloat16 in and out, float32 within.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim=80):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (h * self.weight).to(x.dtype)


def get_inputs():
    return [torch.randn(21, 80).to(torch.bfloat16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _rms(X, W, Y, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(X + r * n + i, mask=i < n, other=0.0).to(tl.float32)
    scale = tl.math.rsqrt(tl.sum(x * x, 0) / n + eps)
    tl.store(Y + r * n + i, (x * scale * tl.load(W + i, mask=i < n, other=0.0)).to(tl.bfloat16), mask=i < n)


def rms_norm(x, weight, eps=1e-6):
    y = torch.empty_like(x)
    _rms[(x.shape[0],)](x, weight, y, x.shape[1], eps, B=128)
    return y


class ModelNew(nn.Module):
    def __init__(self, dim=80):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x):
        return rms_norm(x, self.weight)
