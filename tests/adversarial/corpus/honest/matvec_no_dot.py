# A matrix-vector product as a broadcast and a sum.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, x):
        return a @ x


def get_inputs():
    return [torch.randn(60, 130), torch.randn(130, 1)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def matvec(a, x, y, M, K, BM: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    acc = tl.zeros((BM, BK), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        acc += tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0) \
            * tl.load(x + k, mask=k < K, other=0.0)[None, :]
    tl.store(y + m, tl.sum(acc, 1), mask=m < M)


class ModelNew(nn.Module):
    def forward(self, a, x):
        y = torch.empty(a.shape[0], 1, device=a.device, dtype=a.dtype)
        matvec[(triton.cdiv(a.shape[0], 8),)](a, x.contiguous(), y, a.shape[0], a.shape[1], 8, 64)
        return y
