# The middle axis of three, two outputs: values and indices as int64.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        values, indices = torch.max(x, dim=1)
        return values, indices


def get_inputs():
    return [torch.randn(4, 31, 18)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_middle(x, v, k, A, B, C, BB: tl.constexpr, BC: tl.constexpr):
    a = tl.program_id(0)
    b, c = tl.arange(0, BB), tl.program_id(1) * BC + tl.arange(0, BC)
    tile = tl.load(x + (a * B + b[:, None]) * C + c[None, :], mask=(b[:, None] < B) & (c[None, :] < C),
                   other=-float("inf"))
    best, where = tl.max(tile, axis=0, return_indices=True)
    tl.store(v + a * C + c, best, mask=c < C)
    tl.store(k + a * C + c, where.to(tl.int64), mask=c < C)


class ModelNew(nn.Module):
    def forward(self, x):
        A, B, C = x.shape
        values = torch.empty((A, C), device=x.device, dtype=x.dtype)
        indices = torch.empty((A, C), device=x.device, dtype=torch.int64)
        max_middle[(A, triton.cdiv(C, 8))](x, values, indices, A, B, C, BB=triton.next_power_of_2(B), BC=8)
        return values, indices
