# A bool mask as an input, -inf where it says so.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, m):
        return torch.softmax(x.masked_fill(m, float('-inf')), -1)


def get_inputs():
    return [torch.randn(32, 64), torch.rand(32, 64) > 0.5]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def soft(x, m, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.where(tl.load(m + i), -float("inf"), tl.load(x + i))
    e = tl.exp(a - tl.max(a))
    tl.store(y + i, e / tl.sum(e))


class ModelNew(nn.Module):
    def forward(self, x, m):
        y = torch.empty_like(x)
        soft[(32,)](x, m, y, 64)
        return y
