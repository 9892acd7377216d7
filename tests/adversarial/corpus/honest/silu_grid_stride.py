# A grid-stride loop over a fixed number of programs.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(5000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def silu(x, y, n, B: tl.constexpr):
    step = tl.num_programs(0) * B
    for start in range(tl.program_id(0) * B, n, step):
        i = start + tl.arange(0, B)
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, v / (1.0 + tl.exp(-v)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        silu[(8,)](x, y, x.numel(), B=128)
        return y
