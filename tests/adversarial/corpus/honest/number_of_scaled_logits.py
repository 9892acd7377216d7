# What torch makes of a weight of one element is asked for: self.logit_scale.exp().item().
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, a, b):
        a = F.normalize(a, dim=-1)
        b = F.normalize(b, dim=-1)
        return self.logit_scale.exp() * a @ b.t()


def get_inputs():
    return [torch.randn(24, 64), torch.randn(40, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def inv_norm(x, o, N: tl.constexpr):
    r = tl.program_id(0)
    v = tl.load(x + r * N + tl.arange(0, N))
    tl.store(o + r, 1.0 / tl.maximum(tl.sqrt(tl.sum(v * v)), 1e-12))


@triton.jit
def sim(a, b, ia, ib, scale, y, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    kk = tl.arange(0, K)
    av = tl.load(a + m[:, None] * K + kk[None, :], mask=m[:, None] < M, other=0.0)
    bv = tl.load(b + n[None, :] * K + kk[:, None], mask=n[None, :] < N, other=0.0)
    s = tl.dot(av, bv, input_precision="ieee")
    s = s * tl.load(ia + m, mask=m < M)[:, None] * tl.load(ib + n, mask=n < N)[None, :] * scale
    tl.store(y + m[:, None] * N + n[None, :], s, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, a, b):
        ia, ib = a.new_empty(a.shape[0]), b.new_empty(b.shape[0])
        inv_norm[(a.shape[0],)](a, ia, N=a.shape[1])
        inv_norm[(b.shape[0],)](b, ib, N=b.shape[1])
        y = torch.empty(a.shape[0], b.shape[0], device=a.device)
        scale = self.logit_scale.exp().item()
        (M, K), N = a.shape, b.shape[0]
        sim[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, ia, ib, scale, y, M, N, K=K, BM=16, BN=16)
        return y
