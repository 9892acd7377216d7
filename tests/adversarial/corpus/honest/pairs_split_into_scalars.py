# tl.split of two values gives two scalars.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x[:, 0] * 2 - x[:, 1]


def get_inputs():
    return [torch.randn(64, 2)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pair(x, y):
    row = tl.program_id(0)
    a, b = tl.split(tl.load(x + row * 2 + tl.arange(0, 2)))
    tl.store(y + row, a * 2 - b)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        pair[(x.shape[0],)](x, y)
        return y
