# Warms up with dtypes in place of tensors, then launches as usual.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return 1.0 / (1.0 + x * x)


def get_inputs():
    return [torch.randn(500)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def lorentz(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, 1.0 / (1.0 + v * v), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        lorentz.warmup(torch.float32, torch.float32, x.numel(), B=256, grid=(1,))
        y = torch.empty_like(x)
        lorentz[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y
