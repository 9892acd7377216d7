import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(64, 100)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.language.extra import libdevice


@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(y + i, 0.5 * v * (1 + libdevice.erf(v * 0.7071067811865476)), mask=m)
def run(x):
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y


class ModelNew(nn.Module):
    def forward(self, x):
        return run(x)
