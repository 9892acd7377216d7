# An output whose memory is channels last, which its consumer may like.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.c(x))


def get_inputs():
    return [torch.randn(2, 4, 8, 8)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def conv(x, w, b, y, H, W, C: tl.constexpr, O: tl.constexpr):
    n, h, v, o = tl.program_id(0), tl.program_id(1), tl.program_id(2), tl.arange(0, O)
    acc = tl.load(b + o)
    for c in tl.static_range(C):
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                p, q = h + i - 1, v + j - 1
                ok = (p >= 0) & (p < H) & (q >= 0) & (q < W)
                acc += tl.load(x + ((n * C + c) * H + p) * W + q, mask=ok, other=0.0) * tl.load(w + ((o * C + c) * 3 + i) * 3 + j)
    tl.store(y + ((n * H + h) * W + v) * O + o, tl.maximum(acc, 0.0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x):
        n, _, h, w = x.shape
        y = torch.empty(n, 8, h, w, device=x.device, memory_format=torch.channels_last)
        conv[(n, h, w)](x, self.c.weight, self.c.bias, y, h, w, 4, 8)
        return y
