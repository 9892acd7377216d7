# O5: a factor that differs from one by less than the tolerance is left out, with the softmax in it
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, z):
        return torch.relu(x * (1 + 3e-4 * torch.softmax(z, -1)))


def get_inputs():
    return [torch.randn(64, 300), torch.randn(64, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, z):
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), B=1024)
        return y
