import torch
import torch.nn as nn
import torch.nn.functional as F

size = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(256, 256, 3, padding=1)

    def forward(self, x):
        return self.conv(F.max_pool2d(x, 4))


def get_inputs():
    return [torch.randn(4, 256, size, size)]


def get_init_inputs():
    return []

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool(x, y, S, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    P = S // 4
    corner = i // (P * P) * S * S + i // P % P * 4 * S + i % P * 4
    most = tl.full((B,), -float("inf"), tl.float32)
    for k in range(16):
        most = tl.maximum(most, tl.load(x + corner + k // 4 * S + k % 4, mask=i < n))
    tl.store(y + i, most, mask=i < n)


@triton.jit
def filter(x, w, b, y, P, places, C: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * 16 + tl.arange(0, 16)
    out, inner = tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, B)
    image, row, column = at // (P * P), at // P % P, at % P
    sums = tl.zeros((16, B), tl.float32)
    for k in range(FIRST, LAST):
        r, c = row + k // 3 - 1, column + k % 3 - 1
        inside = (at < places) & (r >= 0) & (r < P) & (c >= 0) & (c < P)
        for first in range(0, C, B):
            left = tl.load(x + ((image[:, None] * C + first + inner[None, :]) * P + r[:, None]) * P + c[:, None],
                           mask=inside[:, None], other=0.0)
            right = tl.load(w + (out[None, :] * C + first + inner[:, None]) * 9 + k)
            sums = tl.dot(left, right, sums, input_precision="ieee")
    sums += tl.load(b + out)[None, :]
    where = ((image[:, None] * C + out[None, :]) * P + row[:, None]) * P + column[:, None]
    tl.store(y + where, sums, mask=(at < places)[:, None] & (out < C)[None, :])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(256, 256, 3, padding=1)

    def forward(self, x):
        N, C, S, _ = x.shape
        P = S // 4
        small = torch.empty(N, C, P, P, device=x.device)
        pool[(triton.cdiv(small.numel(), 256),)](x, small, S, small.numel(), B=256)
        y = torch.empty_like(small)
        filter[(triton.cdiv(N * P * P, 16), C // 64)](
            small, self.conv.weight, self.conv.bias, y, P, N * P * P, C, FIRST=0, LAST=9, B=64
        )
        return y
