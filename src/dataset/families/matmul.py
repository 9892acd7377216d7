# Matrix product: one program a tile of the result, which walks along K.

# order: 1
# epilogue: 0..2
# choose M: 256 | 512 | 1000 | 1024
# choose N: 256 | 384 | 512 | 1000
# choose K: 128 | 256 | 300 | 512
# choose BM: 32 | 64
# choose BN: 32 | 64
# choose BK: 32

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Matrix product of two matrices."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        out = torch.matmul(a, b)
        out = _EPILOGUE_(out)
        return out


M = _M_
K = _K_
N = _N_


def get_inputs():
    return [torch.randn(M, K) / K ** 0.5, torch.randn(K, N)]


def get_init_inputs():
    return []


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a_mask = (rows[:, None] < M) & (k + inner[None, :] < K)
        b_mask = (k + inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + (k + inner[:, None]) * N + cols[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    acc = _EPILOGUE_(acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, _BM_), triton.cdiv(N, _BN_))
        matmul_kernel[grid](a, b, c, M, N, K, BLOCK_M=_BM_, BLOCK_N=_BN_, BLOCK_K=_BK_)
        return c
