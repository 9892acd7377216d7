# A chain of products from its right end, in kernels; torch takes the small one.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b, v):
        return (a @ b) @ v


def get_inputs():
    return [torch.randn(96, 96), torch.randn(96, 80), torch.randn(80, 1)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def times_vector(a, v, y, K, B: tl.constexpr):
    k = tl.arange(0, B)
    row = tl.load(a + tl.program_id(0) * K + k, mask=k < K, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(row * tl.load(v + k, mask=k < K, other=0.0)))


class ModelNew(nn.Module):
    def forward(self, a, b, v):
        w = b @ v
        y = torch.empty(a.shape[0], 1, device=a.device)
        times_vector[(a.shape[0],)](a, w, y, a.shape[1], triton.next_power_of_2(a.shape[1]))
        return y
