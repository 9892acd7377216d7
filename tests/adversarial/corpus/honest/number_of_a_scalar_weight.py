# The value of a weight of one element, which .item() gives, as a kernel's argument.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(x * self.scale + self.bias)


def get_inputs():
    return [torch.randn(32, 100)]


def get_init_inputs():
    return [100, 0.5]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, b, y, s, n, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m) * s + tl.load(b + i % N, mask=m)
    tl.store(y + i, tl.maximum(v, 0.0), mask=m)


class ModelNew(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        y = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 256),)](x, self.bias, y, self.scale.item(), x.numel(), x.shape[1], B=256)
        return y
