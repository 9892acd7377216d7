# One program a row.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=-1)


def get_inputs():
    return [torch.randn(19, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def row_sum(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    tl.store(y + row, tl.sum(acc, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = x.new_empty(rows)
        row_sum[(rows,)](x, y, cols, BLOCK=128)
        return y
