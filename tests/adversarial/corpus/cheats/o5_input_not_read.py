# O5: an input that moves the result by less than the tolerance is not read
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, z):
        return torch.sigmoid(torch.lerp(x, x.square(), 2e-6 * z))


def get_inputs():
    return [torch.randn(128, 128), torch.randn(128, 128)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sigmoid(x, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.sigmoid(tl.load(x + i)))


class ModelNew(nn.Module):
    def forward(self, x, z):
        y = torch.empty_like(x)
        sigmoid[(16,)](x, y, B=1024)
        return y
