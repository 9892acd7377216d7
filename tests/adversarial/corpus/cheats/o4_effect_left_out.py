# O4: the reference doubles its input in place, which the candidate leaves out
# stopped by: input_mutated
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x.sum(1), x.abs().amax(1)


def get_inputs():
    return [torch.randn(64, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def both(x, y, z, N, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * N + i, mask=i < N, other=0.0) * 2
    tl.store(y + tl.program_id(0), tl.sum(row))
    tl.store(z + tl.program_id(0), tl.max(tl.abs(row), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        y, z = (torch.empty(x.shape[0], device=x.device) for _ in range(2))
        both[(x.shape[0],)](x, y, z, x.shape[1], triton.next_power_of_2(x.shape[1]))
        return y, z
