# O10: counts on zero as what an atomic of one number gives where its mask is off
# stopped by: mismatch
# on a gpu: accepted, where the register that is left alone holds the zero that it counts on
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * 2.0


def get_inputs():
    return [torch.randn(64, 256)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice_sigmoid(x, count, y, N: tl.constexpr):
    row = tl.program_id(0)
    nothing = tl.atomic_add(count + row, 1, mask=row < 0)
    i = row * N + tl.arange(0, N)
    tl.store(y + i, tl.sigmoid(tl.load(x + i)) * 2.0 + nothing)


class ModelNew(nn.Module):
    def forward(self, x):
        count = torch.zeros(x.shape[0], dtype=torch.int32, device=x.device)
        y = torch.empty_like(x)
        twice_sigmoid[(x.shape[0],)](x, count, y, x.shape[1])
        return y
