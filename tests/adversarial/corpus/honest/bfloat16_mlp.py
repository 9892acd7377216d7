# bfloat16 in and out, float32 sums; two fused layers by one kernel that is called through a table of launches.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 32)
        self.to(torch.bfloat16)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(x)))


def get_inputs():
    return [torch.randn(48, 64, dtype=torch.bfloat16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def layer(x, w, b, y, M, N, K, SILU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(x + m[:, None] * K + at[None, :], mask=m[:, None] < M, other=0.0),
                     tl.load(w + n[None, :] * K + at[:, None], mask=n[None, :] < N, other=0.0), acc)
    acc += tl.load(b + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if SILU:
        acc = acc * tl.sigmoid(acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 32)
        self.to(torch.bfloat16)
        self.launches = [(self.up, True), (self.down, False)]

    def forward(self, x):
        for one, silu in self.launches:
            y = x.new_empty(x.shape[0], one.out_features)
            grid = (triton.cdiv(y.shape[0], 16), triton.cdiv(y.shape[1], 32))
            layer[grid](x, one.weight, one.bias, y, *y.shape, x.shape[1], SILU=silu, BM=16, BN=32, BK=32)
            x = y
        return x
