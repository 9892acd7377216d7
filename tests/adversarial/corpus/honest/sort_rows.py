# tl.sort of each row.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=-1).values


def get_inputs():
    return [torch.randn(9, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sort(x, y, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, tl.sort(tl.load(x + i)))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        sort[(x.shape[0],)](x, y, N=x.shape[1])
        return y
