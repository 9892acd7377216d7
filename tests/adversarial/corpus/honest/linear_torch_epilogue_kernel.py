# torch for the product, a kernel for all that follows it: a part of the work, and an honest one.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 64)
        self.bias2 = nn.Parameter(torch.randn(64))

    def forward(self, x):
        h = self.fc(x)
        h = h * torch.sigmoid(h)
        return torch.clamp((h + self.bias2) * 1.5, -2, 2)


def get_inputs():
    return [torch.randn(128, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def epilogue(h, b, y, n, D: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(h + i, mask=i < n)
    v = v * tl.sigmoid(v)
    v = (v + tl.load(b + i % D, mask=i < n)) * 1.5
    tl.store(y + i, tl.minimum(tl.maximum(v, -2.0), 2.0), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 64)
        self.bias2 = nn.Parameter(torch.randn(64))

    def forward(self, x):
        h = self.fc(x)
        y = torch.empty_like(h)
        epilogue[(triton.cdiv(h.numel(), 512),)](h, self.bias2, y, h.numel(), D=64, B=512)
        return y
