# Split-K over a third grid axis into scratch, and a second kernel that sums the parts and applies the epilogue.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 40)

    def forward(self, x):
        return torch.sigmoid(self.fc(x)) * 2


def get_inputs():
    return [torch.randn(24, 256)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def parts(x, w, scratch, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.program_id(2)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(s * BK, K, SPLIT * BK):
        at = k + tl.arange(0, BK)
        left = tl.load(x + m[:, None] * K + at, mask=(m[:, None] < M) & (at[None, :] < K), other=0.0)
        right = tl.load(w + n[None, :] * K + at[:, None], mask=(n[None, :] < N) & (at[:, None] < K), other=0.0)
        acc += tl.dot(left, right, input_precision="ieee")
    tl.store(scratch + (s * M + m[:, None]) * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def finish(scratch, bias, y, M, N, SPLIT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.load(bias + i % N, mask=i < M * N, other=0.0)
    for s in tl.static_range(SPLIT):
        total += tl.load(scratch + s * M * N + i, mask=i < M * N, other=0.0)
    tl.store(y + i, 2 * tl.sigmoid(total), mask=i < M * N)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 40)

    def forward(self, x):
        (M, K), N, split = x.shape, self.fc.out_features, 4
        scratch = torch.empty((split, M, N), device=x.device)
        y = torch.empty((M, N), device=x.device)
        parts[(triton.cdiv(M, 16), triton.cdiv(N, 16), split)](x, self.fc.weight, scratch, M, N, K, 16, 16, 32, split)
        finish[(triton.cdiv(M * N, 256),)](scratch, self.fc.bias, y, M, N, split, 256)
        return y
