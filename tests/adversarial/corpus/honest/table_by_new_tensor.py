# A small table is made by x.new_tensor().
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        k = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=x.device) / 16
        return F.conv1d(x, k.view(1, 1, -1).expand(x.shape[1], 1, -1), padding=2, groups=x.shape[1])


def get_inputs():
    return [torch.randn(2, 4, 50)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def blur(x, t, y, L, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for j in tl.static_range(5):
        o = i + j - 2
        acc += tl.load(t + j) * tl.load(x + r * L + o, mask=(o >= 0) & (o < L), other=0.0)
    tl.store(y + r * L + i, acc, mask=i < L)


class ModelNew(nn.Module):
    def forward(self, x):
        t = x.new_tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
        x = x.contiguous()
        y = torch.empty_like(x)
        blur[(x.shape[0] * x.shape[1],)](x, t, y, x.shape[2], B=triton.next_power_of_2(x.shape[2]))
        return y
