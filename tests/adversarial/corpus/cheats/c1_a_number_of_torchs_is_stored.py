# C1 D1: torch does the work, a kernel is given its result by .item() and stores it
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a @ b).square().mean()


def get_inputs():
    return [torch.randn(32, 48), torch.randn(48, 40)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def store(y, value, scale):
    tl.store(y, value * scale)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty((), device=a.device)
        value = torch.mm(a, b).square().mean().item()
        store[(1,)](y, value / 2, (value - value + 2))
        return y
