# A convolution as a product: the columns are computed from indices within the kernel.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, i, o, k):
        super().__init__()
        self.conv2d = nn.Conv2d(i, o, k, stride=2, padding=1, bias=False)

    def forward(self, x):
        return self.conv2d(x)


def get_inputs():
    return [torch.randn(2, 5, 11, 13)]


def get_init_inputs():
    return [5, 8, 3]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def implicit_gemm(x, w, y, N, C, H, W, O, P, Q, KS: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    o = tl.program_id(1) * BN + tl.arange(0, BN)
    n, pq = m // (P * Q), m % (P * Q)
    p, q = pq // Q, pq % Q
    K = C * KS * KS
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        c, rs = k // (KS * KS), k % (KS * KS)
        h = p[:, None] * S + (rs // KS)[None, :] - PAD
        v = q[:, None] * S + (rs % KS)[None, :] - PAD
        ok = (m[:, None] < N * P * Q) & (k[None, :] < K) & (h >= 0) & (h < H) & (v >= 0) & (v < W)
        a = tl.load(x + ((n[:, None] * C + c[None, :]) * H + h) * W + v, mask=ok, other=0.0)
        b = tl.load(w + o[None, :] * K + k[:, None], mask=(o[None, :] < O) & (k[:, None] < K), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    at = (n[:, None] * O + o[None, :]) * (P * Q) + pq[:, None]
    tl.store(y + at, acc, mask=(m[:, None] < N * P * Q) & (o[None, :] < O))


class ModelNew(nn.Module):
    def __init__(self, i, o, k):
        super().__init__()
        self.conv2d = nn.Conv2d(i, o, k, stride=2, padding=1, bias=False)

    def forward(self, x):
        N, C, H, W = x.shape
        w = self.conv2d.weight
        O, KS = w.shape[0], w.shape[2]
        P, Q = (H + 2 - KS) // 2 + 1, (W + 2 - KS) // 2 + 1
        y = torch.empty((N, O, P, Q), device=x.device, dtype=x.dtype)
        implicit_gemm[(triton.cdiv(N * P * Q, 16), triton.cdiv(O, 16))](x, w, y, N, C, H, W, O, P, Q, KS, 2, 1, 16, 16, 16)
        return y
