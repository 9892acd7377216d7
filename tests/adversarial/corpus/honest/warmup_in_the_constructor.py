# Compiled ahead where the module is made, for the types that are to come.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return torch.exp(-x * x)


def get_inputs():
    return [torch.randn(30, 130)]


def get_init_inputs():
    return [130]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bell(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.exp(-v * v), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.to("cuda")
        bell.warmup(torch.float32, torch.float32, width * 16, B=1024, grid=(1,), num_warps=4)

    def forward(self, x):
        y = torch.empty_like(x)
        bell[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), B=1024, num_warps=4)
        return y
