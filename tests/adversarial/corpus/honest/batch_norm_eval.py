# Running statistics are buffers; evaluation mode.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(6)
        self.eval()

    def forward(self, x):
        return nn.functional.relu(self.bn(x))


def get_inputs():
    return [torch.randn(3, 6, 8, 9)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def bn_relu(x, mean, var, w, b, y, total, C, HW, eps, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    ok = i < total
    c = (i // HW) % C
    v = tl.load(x + i, mask=ok)
    v = (v - tl.load(mean + c, mask=ok)) / tl.sqrt(tl.load(var + c, mask=ok) + eps)
    v = v * tl.load(w + c, mask=ok) + tl.load(b + c, mask=ok)
    tl.store(y + i, tl.maximum(v, 0), mask=ok)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(6)
        self.eval()

    def forward(self, x):
        y = torch.empty_like(x)
        N, C, H, W = x.shape
        bn = self.bn
        bn_relu[(triton.cdiv(x.numel(), 128),)](x, bn.running_mean, bn.running_var, bn.weight, bn.bias, y, x.numel(), C,
                                                H * W, bn.eps, B=128)
        return y
