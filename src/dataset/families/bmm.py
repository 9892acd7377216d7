# Batch of matrix products: as matmul, with the batch as third axis of the grid.

# order: 2
# epilogue: 0..2
# choose Z: 8 | 16 | 20
# choose M: 128 | 200 | 256
# choose N: 128 | 160 | 256
# choose K: 64 | 100 | 128
# choose BM: 32 | 64
# choose BN: 32 | 64
# choose BK: 32

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A batch of matrix products."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        out = torch.bmm(a, b)
        out = _EPILOGUE_(out)
        return out


batch_size = _Z_
M = _M_
K = _K_
N = _N_


def get_inputs():
    return [torch.randn(batch_size, M, K) / K ** 0.5, torch.randn(batch_size, K, N)]


def get_init_inputs():
    return []


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bmm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a_mask = (rows[:, None] < M) & (k + inner[None, :] < K)
        b_mask = (k + inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + batch * M * K + rows[:, None] * K + k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + batch * K * N + (k + inner[:, None]) * N + cols[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    acc = _EPILOGUE_(acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + batch * M * N + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        Z, M, K = a.shape
        N = b.shape[2]
        c = torch.empty((Z, M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, _BM_), triton.cdiv(N, _BN_), Z)
        bmm_kernel[grid](a, b, c, M, N, K, BLOCK_M=_BM_, BLOCK_N=_BN_, BLOCK_K=_BK_)
        return c
