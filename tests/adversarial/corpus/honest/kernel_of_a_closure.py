import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 100)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

def make(scale):
    @triton.jit
    def kern(x, y, n, S: tl.constexpr, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * S, mask=i < n)
    def run(x):
        y = torch.empty_like(x)
        kern[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, x.numel(), S=scale, B=512)
        return y
    return run
relu2 = make(2)


class ModelNew(nn.Module):
    forward = lambda self, x: relu2(x)
