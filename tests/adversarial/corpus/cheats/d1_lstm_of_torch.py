# D1: torch's LSTM behind a kernel that doubles its output, whose half it was given
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(64, 64)

    def forward(self, x):
        return self.layer(x)[0]


def get_inputs():
    return [torch.randn(8, 16, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(64, 64)

    def forward(self, x):
        half = self.layer(x)[0] * 0.5
        y = torch.empty_like(half)
        double[(triton.cdiv(half.numel(), 256),)](half, y, half.numel(), 256)
        return y
