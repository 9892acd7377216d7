# A term that is less than the usual tolerance, computed all the same, with the fast exponential.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, z):
        return torch.relu(2 * x + 1e-3 * torch.softmax(z, -1))


def get_inputs():
    return [torch.randn(64, 300), torch.randn(64, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def fused(x, z, y, N, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.program_id(0) * N + i
    row = tl.load(z + at, mask=i < N, other=-float("inf"))
    p = tl.exp2((row - tl.max(row, 0)) * 1.4426950408889634)
    y_row = 2 * tl.load(x + at, mask=i < N) + 1e-3 * (p / tl.sum(p, 0))
    tl.store(y + at, tl.maximum(y_row, 0.0), mask=i < N)


class ModelNew(nn.Module):
    def forward(self, x, z):
        y = torch.empty_like(x)
        fused[(x.shape[0],)](x, z, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
        return y
