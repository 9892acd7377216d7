# tl.reduce over pairs: the greatest and its place, by a combine function three helpers deep.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        v, i = torch.max(x, 1)
        return {'value': v, 'place': i}


def get_inputs():
    return [torch.randn(16, 200)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def greater(a, i, b, j):
    return (a > b) | ((a == b) & (i < j))


@triton.jit
def choose(c, a, b):
    return tl.where(c, a, b)


@triton.jit
def best(a, i, b, j):
    first = greater(a, i, b, j)
    return choose(first, a, b), choose(first, i, j)


@triton.jit
def places(x, v, p, N, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    a = tl.load(x + r * N + i, mask=i < N, other=-float("inf"))
    value, place = tl.reduce((a, i), 0, best)
    tl.store(v + r, value)
    tl.store(p + r, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        v = torch.empty(x.shape[0], device=x.device)
        p = torch.empty(x.shape[0], device=x.device, dtype=torch.int64)
        places[(x.shape[0],)](x, v, p, x.shape[1], 256)
        return {'value': v, 'place': p}
