# Reductions without an axis, which Triton writes with a reshape that may reorder.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        c = x - x.amax((1, 2), keepdim=True)
        return torch.logsumexp(c.flatten(1), 1) + c.mean((1, 2))


def get_inputs():
    return [torch.randn(64, 16, 32)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def over_all(x, y, M: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :] + tl.program_id(0) * M * N
    a = tl.load(x + places)
    c = a - tl.max(a)
    tl.store(y + tl.program_id(0), tl.log(tl.sum(tl.exp(c))) + tl.sum(c) / (M * N))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        over_all[(x.shape[0],)](x, y, x.shape[1], x.shape[2])
        return y
