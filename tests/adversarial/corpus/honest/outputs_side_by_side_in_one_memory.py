# Two outputs in one allocation, in turns.
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x), torch.cos(x)


def get_inputs():
    return [torch.randn(40, 50)]

# ---- candidate ----
import torch
import triton
import triton.language as tl


@triton.jit
def both(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.store(y + 2 * i, tl.sin(a), mask=i < n)
    tl.store(y + 2 * i + 1, tl.cos(a), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(*x.shape, 2, device=x.device)
        both[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y[..., 0], y[..., 1]
