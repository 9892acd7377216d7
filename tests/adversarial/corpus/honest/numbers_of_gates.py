# Weights of one element as Python's numbers, by way of the host and of Python's own math.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(1))
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x * torch.sigmoid(self.beta * x) * torch.tanh(self.gate)


def get_inputs():
    return [torch.randn(64, 64)]

# ---- candidate ----
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, y, beta, g, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(y + i, v * tl.sigmoid(beta * v) * g, mask=m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(1))
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        y = torch.empty_like(x)
        beta, gate = float(self.beta.detach().cpu()), math.tanh(self.gate.data[0].item())
        k[(triton.cdiv(x.numel(), 1024),)](x, y, beta, gate, x.numel(), B=1024)
        return y
