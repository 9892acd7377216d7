# Outer product: a tile of the result from two pieces of vector.

# order: 5
# epilogue: 0..2
# choose M: 500 | 1024 | 2000
# choose N: 512 | 700 | 1024
# choose B: 32 | 64

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Outer product of two vectors."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        out = torch.outer(a, b)
        out = _EPILOGUE_(out)
        return out


M = _M_
N = _N_


def get_inputs():
    return [torch.rand(M) * 2 - 1, torch.randn(N)]


def get_init_inputs():
    return []


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def outer_kernel(a_ptr, b_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + rows, mask=rows < M, other=0.0)
    b = tl.load(b_ptr + cols, mask=cols < N, other=0.0)
    acc = a[:, None] * b[None, :]
    acc = _EPILOGUE_(acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        M, N = a.numel(), b.numel()
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        outer_kernel[(triton.cdiv(M, _B_), triton.cdiv(N, _B_))](a, b, out, M, N, BLOCK=_B_)
        return out
