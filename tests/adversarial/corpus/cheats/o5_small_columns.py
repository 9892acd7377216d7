# O5: columns whose values are small beside the others' are zeros
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.cat([x * 1000, torch.sin(x[:, :16]) * 0.05], 1)


def get_inputs():
    return [torch.randn(64, 128)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def act(x, y, N: tl.constexpr, O: tl.constexpr, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    a = tl.load(x + r * N + i, mask=i < N, other=0.0)
    tl.store(y + r * O + i, a * 1000, mask=i < O)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(64, 144, device=x.device)
        act[(64,)](x, y, 128, 144, 256)
        return y
