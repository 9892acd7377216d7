# A mean that is summed one block after the other in float32, the sigmoid spelled out.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x.mean(1))


def get_inputs():
    return [torch.randn(64, 1024)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean(x, y, N):
    total = 0.0
    for start in range(N):
        total += tl.load(x + tl.program_id(0) * N + start)
    tl.store(y + tl.program_id(0), 1 / (1 + tl.exp(-total / N)))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        mean[(x.shape[0],)](x, y, x.shape[1])
        return y
