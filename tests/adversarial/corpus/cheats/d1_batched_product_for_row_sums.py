# D1: sums over rows of a product that is spelled out are torch's bmm, beside launches that give back what they get
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a * b).sum(-1)


def get_inputs():
    return [torch.randn(64, 512),torch.randn(64, 512)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)


@triton.jit
def half_k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 0.5, mask=i < n)


def show(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y


def shown(x):
    z = show(x)
    y = torch.empty_like(z)
    half_k[(triton.cdiv(z.numel(), 256),)](z, y, z.numel(), B=256)
    return y


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.bmm(shown(a)[:, None], b[:, :, None])[:, 0, 0]
