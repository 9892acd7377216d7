# O2: what odd sizes leave beyond whole blocks is left out, and halved they would be even
# stopped by: mismatch
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
    for first in range(0, K // BK * BK, BK):
        k = first + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :])
        right = tl.load(b + k[:, None] * N + n[None, :])
        sums = tl.dot(left, right, sums, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], sums)


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        c = a.new_empty(M, N)
        product[(M // 32, N // 32)](a, b, c, M, N, K, BM=32, BN=32, BK=16)
        return c
