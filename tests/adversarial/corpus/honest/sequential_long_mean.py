# A mean over a long row, one lane after the other, as a first version would be.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.mean(1)


def get_inputs():
    return [torch.rand(4, 16384)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean(x, y, N):
    total = 0.0
    for i in range(N):
        total += tl.load(x + tl.program_id(0) * N + i)
    tl.store(y + tl.program_id(0), total / N)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        mean[(x.shape[0],)](x, y, x.shape[1])
        return y
