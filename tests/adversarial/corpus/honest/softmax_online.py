# One loop that rescales its sum whenever the maximum grows; the step is a device function of its own.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1) * 10


def get_inputs():
    return [torch.randn(12, 333)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def online_step(m, s, v):
    top = tl.maximum(m, tl.max(v, axis=0))
    return top, s * tl.exp(m - top) + tl.sum(tl.exp(v - top), axis=0)


@triton.jit
def softmax10(x, y, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    m, s = tl.full((), -float("inf"), tl.float32), tl.full((), 0.0, tl.float32)
    for at in range(0, n, B):
        i = at + tl.arange(0, B)
        m, s = online_step(m, s, tl.load(x + row * stride + i, mask=i < n, other=-float("inf")))
    for at in range(0, n, B):
        i = at + tl.arange(0, B)
        v = tl.load(x + row * stride + i, mask=i < n)
        tl.store(y + row * stride + i, 10 * tl.exp(v - m) / s, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax10[(x.size(0),)](x, y, x.size(1), x.stride(0), B=128)
        return y
