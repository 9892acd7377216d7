import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.MaxPool1d(4, 2, 2, dilation=2)

    def forward(self, x):
        return self.p(x)


def get_inputs():
    return [torch.randn(4, 6, 50)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def f(x, y, L, O, BO: tl.constexpr):
    r = tl.program_id(0)
    o = tl.arange(0, BO)
    m = tl.full((BO,), float("-inf"), tl.float32)
    for t in tl.static_range(4):
        i = o * 2 - 2 + t * 2
        m = tl.maximum(m, tl.load(x + r * L + i, mask=(i >= 0) & (i < L) & (o < O), other=float("-inf")))
    tl.store(y + r * O + o, m, mask=o < O)


class ModelNew(nn.Module):
    def forward(self, x):
        B, C, L = x.shape
        O = (L + 4 - 2 * 3 - 1) // 2 + 1
        y = torch.empty(B, C, O, device=x.device)
        f[(B * C,)](x, y, L, O, BO=32)
        return y
