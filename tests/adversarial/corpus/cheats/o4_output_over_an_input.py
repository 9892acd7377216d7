# O4: returns the memory of an input, though the reference does not
# stopped by: output_is_input
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(16, 16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def double(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i) * 2)


class ModelNew(nn.Module):
    def forward(self, x):
        double[(1,)](x, x.numel(), B=256)
        return x
