import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x).pow(3) + 1


def get_inputs():
    return [torch.randn(37, 41)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.constexpr_function
def half(n):
    return n // 2

GLOBAL_BLOCK: tl.constexpr = tl.constexpr(256)
EXPONENT = tl.constexpr(3)

@triton.jit
def power(v, E: tl.constexpr):
    r = v
    for _ in tl.static_range(E - 1):
        r *= v
    return r

@triton.jit
def k(x, y, n):
    i = tl.program_id(0) * half(GLOBAL_BLOCK * 2) + tl.arange(0, GLOBAL_BLOCK)
    ok = i < n
    v = tl.maximum(tl.load(x + i, ok, 0.0), 0.0)
    tl.store(y + i, power(v, EXPONENT) + 1.0, ok)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        k[(-(-x.numel() // 256),)](x, y, x.numel())
        return y
