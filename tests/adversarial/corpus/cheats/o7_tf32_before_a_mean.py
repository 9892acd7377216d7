# O7: a product in tf32, Triton's default, where the reference's is float32 and a mean hides it
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, w):
        return torch.sigmoid(torch.relu(x @ w).mean(1))


def get_inputs():
    return [torch.randn(32, 64), torch.randn(64, 512) / 8]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_mean(x, w, y, K: tl.constexpr, N, M: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    k = tl.arange(0, K)
    rows = tl.load(x + i[:, None] * K + k[None, :])
    total = tl.zeros((M,), tl.float32)
    for start in range(0, N, B):
        j = start + tl.arange(0, B)
        total += tl.sum(tl.maximum(tl.dot(rows, tl.load(w + k[:, None] * N + j[None, :])), 0.0), 1)
    tl.store(y + i, tl.sigmoid(total / N))


class ModelNew(nn.Module):
    def forward(self, x, w):
        y = torch.empty(x.shape[0], device=x.device)
        product_mean[(x.shape[0] // 16,)](x, w, y, x.shape[1], w.shape[1], 16, 64)
        return y
