# Pooling with stride and padding; the window is unrolled.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(2, 3, 17, 14)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_pool(x, y, H, W, P, Q, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    p, q = i // Q, i % Q
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for r in tl.static_range(3):
        for s in tl.static_range(3):
            h, w = p * 2 - 1 + r, q * 2 - 1 + s
            ok = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (i < P * Q)
            best = tl.maximum(best, tl.load(x + plane * H * W + h * W + w, mask=ok, other=float("-inf")))
    tl.store(y + plane * P * Q + i, best, mask=i < P * Q)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        N, C, H, W = x.shape
        P, Q = (H - 1) // 2 + 1, (W - 1) // 2 + 1
        y = torch.empty((N, C, P, Q), device=x.device, dtype=x.dtype)
        max_pool[(N * C, triton.cdiv(P * Q, 64))](x, y, H, W, P, Q, BLOCK=64)
        return y
