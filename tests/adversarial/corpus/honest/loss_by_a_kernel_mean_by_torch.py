import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, a, b):
        return F.smooth_l1_loss(a, b)


def get_inputs():
    return [torch.randn(128, 300), torch.randn(128, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def k(a, b, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.abs(tl.load(a + i, mask=i < n) - tl.load(b + i, mask=i < n))
    tl.store(y + i, tl.where(d < 1, 0.5 * d * d, d - 0.5), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty_like(a)
        k[(triton.cdiv(a.numel(), 512),)](a, b, y, a.numel(), B=512)
        return y.mean()
