# O4: an accumulator that nobody clears: right at the first call alone
# stopped by: mismatch
import torch
import torch.nn as nn
import torch.nn.functional as F

# an accumulator made in the constructor and never cleared: right at the first call alone
class Model(nn.Module):
    def forward(self, x):
        return x.sum(0) * 2.0
def get_inputs():
    return [torch.randn(128, 64)]
# ---- candidate ----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def scale_k(x, y, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)

def scale(x, s):
    x = x.contiguous()
    y = torch.empty_like(x)
    scale_k[(triton.cdiv(x.numel(), 1024),)](x, y, s, x.numel(), B=1024)
    return y

@triton.jit
def k(x, y, D: tl.constexpr):
    i = tl.arange(0, D)
    tl.atomic_add(y + i, tl.load(x + tl.program_id(0) * D + i) * 2.0)
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.acc = torch.zeros(64, device="cuda")
    def forward(self, x):
        k[(x.shape[0],)](x, self.acc, 64)
        return scale(self.acc, 1.0)
