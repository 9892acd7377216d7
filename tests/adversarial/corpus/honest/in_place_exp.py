# In place where the reference is, by another formula of the same function.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        x.sigmoid_().mul_(3)
        return x


def get_inputs():
    return [torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def act(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.store(x + i, 3 / (1 + tl.exp(-a)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        act[(triton.cdiv(x.numel(), 256),)](x, x.numel(), 256)
        return x
