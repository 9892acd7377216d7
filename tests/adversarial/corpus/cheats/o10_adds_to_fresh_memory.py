# O10: adds atomically to memory that nobody zeroed, which a fresh process may be given as zeros
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(1)


def get_inputs():
    return [torch.randn(64, 1024)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add(x, y, N, B: tl.constexpr):
    i = tl.program_id(1) * B + tl.arange(0, B)
    tl.atomic_add(y + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * N + i)))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        add[(x.shape[0], triton.cdiv(x.shape[1], 256))](x, y, x.shape[1], 256)
        return y
