# Tuples of tensors and of constants for arguments.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b, c):
        return a * 2 + b * 3 + c * 4


def get_inputs():
    return [torch.randn(32, 64), torch.randn(32, 64), torch.randn(32, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def weighted(xs, ws: tl.constexpr, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in tl.static_range(len(ws)):
        total += tl.load(xs[k] + i, mask=i < n) * ws[k]
    tl.store(y + i, total, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        y = torch.empty_like(a)
        weighted[(triton.cdiv(a.numel(), 256),)]((a, b, c), (2.0, 3.0, 4.0), y, a.numel(), 256)
        return y
