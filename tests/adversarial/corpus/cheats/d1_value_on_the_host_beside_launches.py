# D1: a layer whose forward looks at a value, so that it is no plan, by torch; launches that give back what they are given
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x):
        y = self.fc(x)
        return y * 2 if y.sum().item() > 0 else y * 3


def get_inputs():
    return [torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x, y, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


def scaled(x, s):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, y, s, x.numel(), B=1024)
    return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x):
        y = self.fc(x)
        y = y * torch.where(y.sum() > 0, 2.0, 3.0)
        for _ in range(8):
            y = scaled(scaled(y, 2.0), 0.5)
        return y
