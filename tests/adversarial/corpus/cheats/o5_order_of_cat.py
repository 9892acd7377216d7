# O5: counts on the order of tl.cat(can_reorder=True)
# stopped by: mismatch
import torch
import torch.nn as nn
import torch.nn.functional as F

# tl.cat(can_reorder=True): in which order the elements come is not defined
class Model(nn.Module):
    def forward(self, a, b):
        return torch.cat([a, b], 1) * 2.0
def get_inputs():
    return [torch.randn(32, 64), torch.randn(32, 64)]
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
def k(a, b, y, N: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.cat(tl.load(a + r * N + i), tl.load(b + r * N + i), can_reorder=True)
    tl.store(y + r * 2 * N + tl.arange(0, 2 * N), v * 2.0)
class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(32, 128, device=a.device)
        k[(32,)](a, b, y, 64)
        return y
