# Split-K by atomics, and heuristics for masks that may be left out and for warps.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(300, 48)

    def forward(self, x):
        return self.fc(x)


def get_inputs():
    return [torch.randn(40, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.heuristics({"EVEN_K": lambda a: a["K"] % (a["BK"] * a["SPLIT"]) == 0, "num_warps": lambda a: 4 if a["M"] > 16 else 2})
@triton.jit
def linear(x, w, b, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr, EVEN_K: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(part * BK, K, BK * SPLIT):
        k = at + tl.arange(0, BK)
        if EVEN_K:
            left = tl.load(x + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
            right = tl.load(w + n[None, :] * K + k[:, None], mask=n[None, :] < N, other=0.0)
        else:
            left = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            right = tl.load(w + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc += tl.dot(left, right, input_precision="ieee")
    if part == 0:
        acc += tl.load(b + n, mask=n < N, other=0.0)[None, :]
    tl.atomic_add(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N), sem="relaxed")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(300, 48)

    def forward(self, x):
        y = torch.zeros(x.shape[0], 48, device=x.device, dtype=x.dtype)
        linear[(triton.cdiv(x.shape[0], 16), 3, 4)](x, self.fc.weight, self.fc.bias, y, x.shape[0], 48, 300, 16, 16, 16, 4)
        return y
