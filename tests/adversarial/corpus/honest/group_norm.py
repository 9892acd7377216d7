# One program for a group of an image.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.gn = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.gn(x)


def get_inputs():
    return [torch.randn(2, 12, 5, 7)]


def get_init_inputs():
    return [12, 3]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def group_norm(x, w, b, y, C, HW, G, eps, BC: tl.constexpr, BS: tl.constexpr):
    n, g = tl.program_id(0), tl.program_id(1)
    per = C // G
    c, s = tl.arange(0, BC), tl.arange(0, BS)
    channel = g * per + c
    mask = (c[:, None] < per) & (s[None, :] < HW)
    at = (n * C + channel[:, None]) * HW + s[None, :]
    v = tl.load(x + at, mask=mask, other=0.0)
    count = per * HW
    mean = tl.sum(v) / count
    d = tl.where(mask, v - mean, 0.0)
    inv = tl.rsqrt(tl.sum(d * d) / count + eps)
    cm = c < per
    gain, shift = tl.load(w + channel, mask=cm), tl.load(b + channel, mask=cm)
    tl.store(y + at, d * inv * gain[:, None] + shift[:, None], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.gn = nn.GroupNorm(groups, channels)

    def forward(self, x):
        N, C, H, W = x.shape
        G = self.gn.num_groups
        y = torch.empty_like(x)
        group_norm[(N, G)](x, self.gn.weight, self.gn.bias, y, C, H * W, G, self.gn.eps,
                           BC=triton.next_power_of_2(C // G), BS=triton.next_power_of_2(H * W))
        return y
