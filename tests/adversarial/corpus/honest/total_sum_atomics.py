# Everything to one number: each program adds its part with an atomic.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return (x * x).sum()


def get_inputs():
    return [torch.randn(50, 61)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def squares(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(out, tl.sum(v * v))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros((), device=x.device, dtype=torch.float32)
        squares[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), B=256)
        return out
