# O2: the taps of a dilated filter but the one in the middle, which see nothing of an image that is made smaller
# stopped by: mismatch
import torch
import torch.nn as nn

batch = 16
channels = 32
size = 512


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=32, dilation=32, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch, channels, size, size)]


def get_init_inputs():
    return [channels]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv(x, w, y, S, C, D, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    out, image = tl.program_id(1), tl.program_id(2)
    row, column = i // S, i % S
    sums = tl.zeros((B,), tl.float32)
    for c in range(C):
        for tap in range(4, 5):
            r, k = row + (tap // 3 - 1) * D, column + (tap % 3 - 1) * D
            inside = (r >= 0) & (r < S) & (k >= 0) & (k < S)
            sums += tl.load(x + ((image * C + c) * S + r) * S + k, mask=inside, other=0.0) * tl.load(
                w + (out * C + c) * 9 + tap)
    tl.store(y + (image * C + out) * S * S + i, sums, mask=i < S * S)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=32, dilation=32, bias=False)

    def forward(self, x):
        N, C, S, _ = x.shape
        y = torch.empty_like(x)
        conv[(triton.cdiv(S * S, 256), C, N)](x, self.conv.weight, y, S, C, 32, B=256)
        return y
