# Ones and zeros as floats, which half precision holds as well.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x > 0).float()


def get_inputs():
    return [torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def act(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, (tl.load(x + i, mask=i < n) > 0).to(tl.float32), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        act[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 256)
        return y
