# The kernel sits in a torch.autograd.Function, as training code has it.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.mish(x)


def get_inputs():
    return [torch.randn(22, 41)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mish_forward(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    e = tl.exp(v)
    w = e * (e + 2)
    tl.store(y + i, tl.where(v > 20, v, v * w / (w + 2)), mask=i < n)


class Mish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        mish_forward[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


class ModelNew(nn.Module):
    def forward(self, x):
        return Mish.apply(x)
