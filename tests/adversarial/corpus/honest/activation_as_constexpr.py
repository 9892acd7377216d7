# One kernel for several activations: the function is a constexpr argument, helpers call helpers.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.gelu(x), torch.tanh(y), torch.nn.functional.leaky_relu(x + y, 0.1)


def get_inputs():
    return [torch.randn(33, 65), torch.randn(33, 65)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.language.extra import libdevice


@triton.jit
def half_of(x):
    return x * 0.5


@triton.jit
def gelu(x):
    return half_of(x) * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def tanh(x):
    return libdevice.tanh(x)


@triton.jit
def leaky(x):
    return tl.where(x > 0, x, 0.1 * x)


@triton.jit
def each(x, y, out, n, ACT: tl.constexpr, HAS_Y: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if HAS_Y:
        v += tl.load(y + i, mask=i < n)
    tl.store(out + i, ACT(v), mask=i < n)


class ModelNew(nn.Module):
    def one(self, activation, x, y=None):
        out = torch.empty_like(x)
        each[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, out, x.numel(), activation, y is not None, B=512)
        return out

    def forward(self, x, y):
        return self.one(gelu, x), self.one(tanh, y), self.one(leaky, x, y)
