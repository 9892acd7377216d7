# Static prints and asserts, device prints and asserts, as in code that is being written.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sin(x)


def get_inputs():
    return [torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def act(x, y, n, B: tl.constexpr):
    tl.static_assert(B >= 16, "a small block")
    tl.static_print("block", B)
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.device_assert(i >= 0, "an index")
    tl.debug_barrier()
    tl.assume(n > 0)
    tl.store(y + i, tl.sin(a), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        act[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 256)
        return y
