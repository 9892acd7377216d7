# Dropout is the identity in evaluation; what is left is the residual.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.eval()

    def forward(self, x, r):
        return self.drop(torch.nn.functional.leaky_relu(x, 0.1)) + r


def get_inputs():
    return [torch.randn(20, 33), torch.randn(20, 33)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def leaky_residual(x, r, y, n, slope, p, TRAINING: tl.constexpr, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    v = tl.where(v > 0, v, v * slope)
    if TRAINING:
        v = tl.where(tl.rand(seed, i) > p, v / (1 - p), 0.0)
    tl.store(y + i, v + tl.load(r + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = 0.3
        self.eval()

    def forward(self, x, r):
        y = torch.empty_like(x)
        leaky_residual[(triton.cdiv(x.numel(), 256),)](x, r, y, x.numel(), 0.1, self.p, self.training, 1234, B=256)
        return y
