# inference_mode around a part of forward: views of ordinary tensors are written there and afterwards.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(48))

    def forward(self, x):
        y = torch.sigmoid(x + self.bias) * x
        y[:, :16] = 0
        return y.reshape(6, 5, 48), y.split(24, dim=1)[1] + 1


def get_inputs():
    return [torch.randn(30, 48)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def gated(x, b, y, n, D: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.sigmoid(v + tl.load(b + i % D, mask=i < n)) * v, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(48))

    def forward(self, x):
        y = torch.empty_like(x)
        with torch.inference_mode():
            flat = y.view(-1)
            gated[(triton.cdiv(flat.numel(), 256),)](x.view(-1), self.bias.detach(), flat, flat.numel(), D=48, B=256)
            left, right = y.split([16, 32], dim=1)
            left.zero_()
            kept = y[:, 24:] + 1
        right[:, :0].zero_()
        y.requires_grad_(False)
        return y.reshape(6, 5, 48), kept
