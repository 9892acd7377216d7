# Odd sizes, whose last blocks are masked (H1).
import torch
import torch.nn as nn

M = 8205
K = 2049
N = 4097


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(M, K), torch.rand(K, N)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :],
                       mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + n[None, :],
                        mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        sums = tl.dot(left, right, sums, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], sums,
             mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        c = a.new_empty(M, N)
        product[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=32, BN=32, BK=16)
        return c
