# Columns are reduced down the rows; keepdim.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=0, keepdim=True)


def get_inputs():
    return [torch.randn(77, 45)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def column_mean(x, y, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros([BC], dtype=tl.float32)
    r0 = 0
    while r0 < rows:
        r = r0 + tl.arange(0, BR)
        tile = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
        total += tl.sum(tile, 0)
        r0 += BR
    tl.store(y + c, total / rows, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty(1, cols, device=x.device)
        column_mean[(triton.cdiv(cols, 16),)](x, y, rows, cols, BR=32, BC=16)
        return y
