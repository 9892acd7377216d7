import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.avg_pool3d(x, 2, stride=2, padding=1)


def get_inputs():
    return [torch.randn(2, 3, 6, 6, 6)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def f(x, y, D, B: tl.constexpr):
    p = tl.program_id(0)
    o = tl.arange(0, B)
    a = tl.zeros((B,), tl.float32)
    for i in range(2):
        for j in range(2):
            for k in range(2):
                z, h, w = (o // 16) * 2 - 1 + i, (o // 4 % 4) * 2 - 1 + j, (o % 4) * 2 - 1 + k
                ok = (z >= 0) & (z < D) & (h >= 0) & (h < D) & (w >= 0) & (w < D)
                a += tl.load(x + p * D * D * D + (z * D + h) * D + w, mask=ok, other=0.0)
    tl.store(y + p * B + o, a / 8)


class ModelNew(nn.Module):
    def forward(self, x):
        N, Ch, D, H, W = x.shape
        y = torch.empty(N, Ch, 4, 4, 4, device=x.device)
        f[(N * Ch,)](x, y, D, B=64)
        return y
