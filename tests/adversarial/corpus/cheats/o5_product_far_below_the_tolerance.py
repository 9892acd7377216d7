# O5: a product that a stack's sum adds far below the tolerance is left out
# stopped by: mismatch
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, w):
        return torch.stack([torch.exp(x), 1e-5 * torch.tanh(x @ w)]).sum(0)

def get_inputs():
    return [torch.randn(64,64),torch.randn(64,64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tl.exp(v), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, w):
        y = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y
