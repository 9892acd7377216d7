# A direct one-dimensional convolution with padding.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 4, 40)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def conv1d(x, w, b, y, L, C_IN: tl.constexpr, C_OUT: tl.constexpr, KS: tl.constexpr, BL: tl.constexpr):
    n, co = tl.program_id(0), tl.program_id(1)
    pos = tl.program_id(2) * BL + tl.arange(0, BL)
    acc = tl.zeros([BL], tl.float32) + tl.load(b + co)
    for ci in tl.static_range(C_IN):
        for t in tl.static_range(KS):
            at = pos + t - KS // 2
            acc += tl.load(x + (n * C_IN + ci) * L + at, mask=(at >= 0) & (at < L), other=0.0) \
                * tl.load(w + (co * C_IN + ci) * KS + t)
    tl.store(y + (n * C_OUT + co) * L + pos, acc, mask=pos < L)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, padding=1)

    def forward(self, x):
        N, C, L = x.shape
        y = torch.empty(N, 6, L, device=x.device, dtype=x.dtype)
        conv1d[(N, 6, triton.cdiv(L, 32))](x, self.conv.weight, self.conv.bias, y, L, 4, 6, 3, 32)
        return y
