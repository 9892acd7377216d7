# Two-dimensional tiles with strides as arguments, so that a transposed input needs no copy.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.tanh(a + b.t())


def get_inputs():
    return [torch.randn(37, 70), torch.randn(70, 37)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_tanh(a, b, out, M, N, sam, san, sbm, sbn, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(a + m[:, None] * sam + n[None, :] * san, mask=mask)
    v += tl.load(b + m[:, None] * sbm + n[None, :] * sbn, mask=mask)
    v = 2 * tl.sigmoid(2 * v) - 1
    tl.store(out + m[:, None] * N + n[None, :], v, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        b = b.t()
        M, N = a.shape
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        add_tanh[(triton.cdiv(M, 16), triton.cdiv(N, 32))](a, b, out, M, N, *a.stride(), *b.stride(), BM=16, BN=32)
        return out
