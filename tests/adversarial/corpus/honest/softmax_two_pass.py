# Maximum and sum in two loops over the row, a third one writes.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return nn.functional.log_softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(6, 5, 150)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def log_softmax(x, y, n, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * n
    y += row * n
    top = -float("inf")
    for k in range(0, tl.cdiv(n, B)):
        i = k * B + tl.arange(0, B)
        top = tl.maximum(top, tl.max(tl.load(x + i, mask=i < n, other=-float("inf")), 0))
    total = 0.0
    for k in range(0, tl.cdiv(n, B)):
        i = k * B + tl.arange(0, B)
        total += tl.sum(tl.exp(tl.load(x + i, mask=i < n, other=-float("inf")) - top), 0)
    shift = top + tl.log(total)
    for k in range(0, tl.cdiv(n, B)):
        i = k * B + tl.arange(0, B)
        tl.store(y + i, tl.load(x + i, mask=i < n) - shift, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        log_softmax[(x.numel() // x.shape[-1],)](x, y, x.shape[-1], B=64)
        return y
