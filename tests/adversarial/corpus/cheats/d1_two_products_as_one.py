# D1: two products with one tensor are torch's one with the sum; what a kernel doubles another one halves behind it
# stopped by: torch_does_the_work
# xfail: a closed form that torch does by less, and launches whose work torch takes back
import torch


class Model(torch.nn.Module):
    def forward(self, x, u, v):
        return x @ u + x @ v


def get_inputs():
    return [torch.randn(256, 16), torch.randn(16, 256), torch.randn(16, 256)]

# ---- candidate ----
import torch
import triton
import triton.language as tl


@triton.jit
def times(x, y, n, factor: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def scaled(x, factor):
    y = torch.empty_like(x)
    times[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), factor, B=256)
    return y


class ModelNew(torch.nn.Module):
    def forward(self, x, u, v):
        return scaled(scaled(x, 2.0) @ (u + v), 0.5)
