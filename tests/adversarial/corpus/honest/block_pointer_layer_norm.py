# Block pointers that advance over a row twice, with boundary checks, and the statistics as further outputs.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(300)

    def forward(self, x):
        return self.norm(x), x.mean(-1), x.var(-1, unbiased=False)


def get_inputs():
    return [torch.randn(40, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def layer_norm(x, w, b, y, mean_out, var_out, M, N, eps, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    xp = tl.make_block_ptr(x, (M, N), (N, 1), (m, 0), (BM, BN), (1, 0))
    yp = tl.make_block_ptr(y, (M, N), (N, 1), (m, 0), (BM, BN), (1, 0))
    rows = m + tl.arange(0, BM)
    total, squares = tl.zeros((BM,), tl.float32), tl.zeros((BM,), tl.float32)
    shift = tl.load(x + rows * N, mask=rows < M, other=0.0)
    p = xp
    for n in range(0, N, BN):
        v = tl.load(p, boundary_check=(0, 1), padding_option="zero")
        v = tl.where((n + tl.arange(0, BN))[None, :] < N, v - shift[:, None], 0.0)
        total += tl.sum(v, 1)
        squares += tl.sum(v * v, 1)
        p = tl.advance(p, (0, BN))
    mean = total / N
    var = squares / N - mean * mean
    mean += shift
    rstd = tl.rsqrt(var + eps)
    wp = tl.make_block_ptr(w, (N,), (1,), (0,), (BN,), (0,))
    bp = tl.make_block_ptr(b, (N,), (1,), (0,), (BN,), (0,))
    for n in range(0, N, BN):
        v = (tl.load(xp, boundary_check=(0, 1)) - mean[:, None]) * rstd[:, None]
        v = v * tl.load(wp, boundary_check=(0,))[None, :] + tl.load(bp, boundary_check=(0,))[None, :]
        tl.store(yp, v, boundary_check=(0, 1))
        xp, yp = tl.advance(xp, (0, BN)), tl.advance(yp, (0, BN))
        wp, bp = tl.advance(wp, (BN,)), tl.advance(bp, (BN,))
    tl.store(mean_out + rows, mean, mask=rows < M)
    tl.store(var_out + rows, var, mask=rows < M)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(300)

    def forward(self, x):
        M, N = x.shape
        y, mean, var = torch.empty_like(x), x.new_empty(M), x.new_empty(M)
        layer_norm[(triton.cdiv(M, 8),)](x, self.norm.weight, self.norm.bias, y, mean, var, M, N, self.norm.eps, 8, 64)
        return y, mean, var
