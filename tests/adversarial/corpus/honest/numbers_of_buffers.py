# A size and a slope that are buffers of one element, asked for by int() and .item().
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, shift, slope):
        super().__init__()
        self.by = shift
        self.register_buffer("shift", torch.tensor(shift))
        self.register_buffer("slope", torch.tensor([slope]))

    def forward(self, x):
        return torch.nn.functional.relu(torch.roll(x, self.by, 1)) + self.slope * x


def get_inputs():
    return [torch.randn(4, 16, 8)]


def get_init_inputs():
    return [3, 0.25]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rolled(x, y, slope, T, D, by, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    t, row = (i // D) % T, i // (D * T)
    v = tl.load(x + (row * T + (t + T - by) % T) * D + i % D, mask=i < n)
    tl.store(y + i, tl.maximum(v, 0.0) + slope * tl.load(x + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, shift, slope):
        super().__init__()
        self.register_buffer("shift", torch.tensor(shift))
        self.register_buffer("slope", torch.tensor([slope]))

    def forward(self, x):
        y = torch.empty_like(x)
        _, T, D = x.shape
        rolled[(triton.cdiv(x.numel(), 128),)](x, y, self.slope.item(), T, D, int(self.shift), x.numel(), B=128)
        return y
