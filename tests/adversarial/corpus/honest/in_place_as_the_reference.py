# Writes into its input and returns it, because the reference does.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        x.mul_(0.5).add_(y)
        return x


def get_inputs():
    return [torch.randn(25, 30), torch.randn(25, 30)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def halve_and_add(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(x + i, tl.load(x + i, mask=mask) * 0.5 + tl.load(y + i, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        halve_and_add[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
        return x
