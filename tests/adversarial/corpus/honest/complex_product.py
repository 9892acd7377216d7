# handed: no plan has complex numbers
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y))


def get_inputs():
    return [torch.randn(64,2),torch.randn(64,2)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def f(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, d = tl.load(x + 2 * i), tl.load(x + 2 * i + 1), tl.load(y + 2 * i), tl.load(y + 2 * i + 1)
    tl.store(o + 2 * i[:, None] + tl.arange(0, 2)[None, :], tl.join(a * c - b * d, a * d + b * c))


class ModelNew(nn.Module):
    def forward(self, x, y):
        o = torch.empty_like(x)
        f[(1,)](x, y, o, N=64)
        return o
