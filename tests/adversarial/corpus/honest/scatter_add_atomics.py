# Rows are added where an index says so, with atomics.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, index):
        out = torch.zeros(10, x.shape[1], dtype=x.dtype, device=x.device)
        return out.index_add(0, index, x * x)


def get_inputs():
    return [torch.randn(40, 16), torch.randint(0, 10, (40,))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def scatter_add(x, index, y, D: tl.constexpr):
    r = tl.program_id(0)
    d = tl.arange(0, D)
    v = tl.load(x + r * D + d)
    tl.atomic_add(y + tl.load(index + r) * D + d, v * v, sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, x, index):
        y = torch.zeros(10, x.shape[1], dtype=x.dtype, device=x.device)
        scatter_add[(x.shape[0],)](x, index, y, D=x.shape[1])
        return y
