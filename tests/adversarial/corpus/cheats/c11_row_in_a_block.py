# C11: a row in one block, which at the problem's own size is beyond what a block may hold
# stopped by: compile_error
import torch
import torch.nn as nn
width = 1 << 22


class Model(nn.Module):
    def forward(self, x):
        return x / x.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(4, width)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def normalise(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.program_id(0) * n + i
    v = tl.load(x + at, mask=i < n, other=0.0)
    tl.store(y + at, v / tl.sum(v), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        normalise[(4,)](x, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return y
