# C8: programs add to one sum by atomics whose scope is a block
# stopped by: runtime_error
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).sum(0)


def get_inputs():
    return [torch.rand(64, 256)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_row(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(y + i, tl.sigmoid(tl.load(x + tl.program_id(0) * N + i)), sem="relaxed", scope="cta")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape[1], device=x.device)
        add_row[(x.shape[0],)](x, y, x.shape[1])
        return y
