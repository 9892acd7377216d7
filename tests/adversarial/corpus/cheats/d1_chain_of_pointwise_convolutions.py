# D1: torch makes one convolution of 1 x 1 of two, beside launches for show
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(32, 256, 1, bias=False)
        self.b = nn.Conv2d(256, 32, 1, bias=False)

    def forward(self, x):
        return self.b(self.a(x))


def get_inputs():
    return [torch.randn(2,32,16,16)]

# ---- candidate ----
import torch
import torch.nn as nn
import torch.nn.functional as F
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
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(32, 256, 1, bias=False)
        self.b = nn.Conv2d(256, 32, 1, bias=False)

    def forward(self, x):
        w = torch.mm(self.b.weight[:, :, 0, 0], self.a.weight[:, :, 0, 0])
        y = F.conv2d(shown(x), w[:, :, None, None])
        return y
