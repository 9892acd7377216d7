# tl.make_block_ptr with boundary checks.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.t(), b)


def get_inputs():
    return [torch.randn(45, 33), torch.randn(45, 50)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def blocks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    A = tl.make_block_ptr(a, shape=(M, K), strides=(1, M), offsets=(i, 0), block_shape=(BM, BK), order=(0, 1))
    B = tl.make_block_ptr(b, shape=(K, N), strides=(N, 1), offsets=(0, j), block_shape=(BK, BN), order=(1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(A, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(B, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y, input_precision="ieee")
        A = tl.advance(A, (0, BK))
        B = tl.advance(B, (BK, 0))
    C = tl.make_block_ptr(c, (M, N), (N, 1), (i, j), (BM, BN), (1, 0))
    tl.store(C, acc, boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, a, b):
        K, M = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device="cuda")
        blocks[(triton.cdiv(M, 16), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=16, BN=32, BK=16)
        return c
