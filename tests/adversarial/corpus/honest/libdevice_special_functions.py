# Functions of libdevice that few kernels take: erfc, atan2, hypot, lgamma, expm1, copysign.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.special.log_ndtr(x) + torch.atan2(x, x + 3) + torch.hypot(x, x * 2) + torch.lgamma(x.abs() + 1) + torch.expm1(x) + torch.copysign(x * x, x)


def get_inputs():
    return [torch.randn(40, 100)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.language.extra import libdevice


@triton.jit
def many(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    z = libdevice.log(0.5 * libdevice.erfc(-v * 0.70710678)) + libdevice.atan2(v, v + 3) + libdevice.hypot(v, v * 2)
    z += libdevice.lgamma(libdevice.abs(v) + 1) + libdevice.expm1(v) + libdevice.copysign(v * v, v)
    tl.store(y + i, z, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        many[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), B=512)
        return y
