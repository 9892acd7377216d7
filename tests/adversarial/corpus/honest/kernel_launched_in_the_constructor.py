# The constructor makes a table by a kernel; forward's kernel adds it.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        angles = torch.arange(places)[:, None] / 10.0 + torch.arange(width)[None, :] / 100.0
        self.register_buffer("table", torch.cos(angles), persistent=False)

    def forward(self, x):
        return torch.relu(x + self.table)


def get_inputs():
    return [torch.randn(24, 40, 96)]


def get_init_inputs():
    return [40, 96]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def make_table(t, n, width: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    angle = (i // width).to(tl.float32) / 10.0 + (i % width).to(tl.float32) / 100.0
    tl.store(t + i, tl.cos(angle), mask=i < n)


@triton.jit
def add_relu(x, t, y, n, size, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n) + tl.load(t + i % size, mask=i < n)
    tl.store(y + i, tl.maximum(v, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        table = torch.empty(places, width, device="cuda")
        make_table[(triton.cdiv(table.numel(), 256),)](table, table.numel(), width, B=256)
        self.table = table

    def forward(self, x):
        y = torch.empty_like(x)
        add_relu[(triton.cdiv(x.numel(), 512),)](x, self.table.to(x.device), y, x.numel(), self.table.numel(), B=512)
        return y
