import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 100)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(y + i, tl.maximum(v, 0.0) * 2, mask=m)
def run(x):
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y

import functools
LAUNCH = dict(B=128, num_warps=4, num_stages=2)
def _go(kernel, x):
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    kernel[(triton.cdiv(x.numel(), LAUNCH["B"]),)](x, y, x.numel(), **LAUNCH)
    return y
go = functools.partial(_go, k)


class Base(nn.Module):
    def forward(self, x):
        return self.op(x)


class ModelNew(Base):
    op = staticmethod(go)
