# Softplus as it is written, of numbers of which a line would nearly do (H1).
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.softplus(x * 0.01)


def get_inputs():
    return [torch.randn(64, 256)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def act(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.log(1 + tl.exp(v * 0.01)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        act[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y
