# A scratch buffer registered in the constructor, zeroed in every call.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return (x - x.mean()) * 2


def get_inputs():
    return [torch.randn(20, 50)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_up(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(s, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def centre(x, s, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, (tl.load(x + i, mask=i < n) - tl.load(s) / n) * 2, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x):
        y = torch.empty_like(x)
        self.scratch.zero_()
        grid = (triton.cdiv(x.numel(), 256),)
        add_up[grid](x, self.scratch, x.numel(), B=256)
        centre[grid](x, self.scratch, y, x.numel(), B=256)
        return y
