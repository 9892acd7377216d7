# O4: of an effect in place one half is done
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return torch.sin(x)


def get_inputs():
    return [torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def act(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n) * 2
    tl.store(x + i, a, mask=i < n // 2)
    tl.store(y + i, tl.sin(a), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        act[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 256)
        return y
