# tl.associative_scan by blocks with a carry from block to block.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.cumprod(x, dim=-1)


def get_inputs():
    return [torch.rand(5, 70) * 0.2 + 0.9]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def times(a, b):
    return a * b


@triton.jit
def cumprod(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    carry = 1.0
    for at in range(0, n, B):
        i = at + tl.arange(0, B)
        v = tl.load(x + row * n + i, mask=i < n, other=1.0)
        tl.store(y + row * n + i, carry * tl.associative_scan(v, 0, times), mask=i < n)
        carry *= tl.reduce(v, 0, times)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        cumprod[(x.shape[0],)](x, y, x.shape[1], B=32)
        return y
