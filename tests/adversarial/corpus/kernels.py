# What the cheats share: a kernel that copies, and an honest solution of problem.py.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def copy(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y


@triton.jit
def matmul_softmax(a, b, y, M, N, K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    scores = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        left = tl.load(a + m * K + k, mask=m < M, other=0.0)
        scores += left[:, None] * tl.load(b + k * N + n, mask=n < N, other=0.0)[None, :]
    scores = tl.where(n[None, :] < N, scores, -float("inf"))
    p = tl.exp(scores - tl.max(scores, 1)[:, None])
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y + m[:, None] * N + n[None, :], p / tl.sum(p, 1)[:, None], mask=mask)


def honest(a, b):
    (M, K), N = a.shape, b.shape[1]
    y = torch.empty(M, N, device=a.device)
    matmul_softmax[(triton.cdiv(M, 8),)](a, b, y, M, N, K, triton.next_power_of_2(N), 8)
    return y


