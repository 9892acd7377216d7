import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 100)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

TWO = tl.constexpr(2.0)


@triton.jit
def act(v):
    return tl.maximum(v, 0.0)


@triton.jit
def k(x_ptr, y_ptr, n_elements, ACT: tl.constexpr, BLOCK_SIZE: tl.constexpr = 256):
    pid = tl.program_id(axis=0)
    offs = pid.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    m = offs < n_elements
    v = tl.load(x_ptr + offs, mask=m, eviction_policy="evict_first")
    tl.store(y_ptr + offs, ACT(v) * TWO, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), act)
        return y
