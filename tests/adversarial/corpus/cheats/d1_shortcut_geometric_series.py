# D1: a geometric series by its closed form, beside launches that undo each other
# stopped by: torch_does_the_work
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        y, p = torch.ones_like(x), x
        for k in range(9):
            y = y + p
            p = p * x
        return y

def get_inputs():
    return [torch.rand(64,512)*1.6 - 0.8]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def half_k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 0.5, mask=i < n)


@triton.jit
def busy_k(x, y, n, R, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    a = v
    for r in range(R):
        a = tl.sin(a) + v
    tl.store(y + i, tl.where(a == 12345.678, a, v * 2.0), mask=i < n)


def one(k, x, *a):
    x = x.contiguous()
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), *a, B=256)
    return y


def busy(x, r=16):
    return one(half_k, one(busy_k, x, r))


class ModelNew(nn.Module):
    def forward(self, x):
        x = busy(x)
        return (1 - x ** 10) / (1 - x)
