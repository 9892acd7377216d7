# C11: the whole tensor in one block, which works small and compiles for no real size
# stopped by: compile_error
import torch
import torch.nn as nn
size = 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(size, size)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu[(1,)](x, y, x.numel(), B=triton.next_power_of_2(x.numel()))
        return y
