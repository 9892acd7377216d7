# Programs that find something all store the same number at the same place, which is right in any order.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x > 2.5).any(1)


def get_inputs():
    return [torch.randn(32, 512)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def any_above(x, y, N, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * B + tl.arange(0, B)
    found = tl.max((tl.load(x + row * N + i, mask=i < N, other=0.0) > 2.5).to(tl.int32), 0)
    tl.store(y + row, found.to(tl.int8), mask=found > 0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape[0], device=x.device, dtype=torch.int8)
        any_above[(x.shape[0], triton.cdiv(x.shape[1], 64))](x, y, x.shape[1], 64)
        return y.bool()
