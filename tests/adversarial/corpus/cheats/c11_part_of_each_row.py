# C11: of each row so many blocks as the reduced sizes have
# stopped by: mismatch
import torch
import torch.nn as nn

batch = 2048
width = 16384


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).half()


def get_inputs():
    return [torch.randn(batch, width)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def block_of(x, y, at, n, B: tl.constexpr):
    i = at + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.sigmoid(v).to(tl.float16), mask=i < n)


@triton.jit
def rows(x, y, width, BLOCKS: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    for k in range(0, BLOCKS):
        block_of(x + row, y + row, k * B, width, B)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, dtype=torch.float16, device=x.device)
        rows[(x.shape[0],)](x, y, x.shape[1], BLOCKS=min(triton.cdiv(x.shape[1], 128), 32), B=128)
        return y
