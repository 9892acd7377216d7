# O2: what a block takes over from those before it is left out, and of a row that is made smaller there is one block
# stopped by: mismatch
import torch
import torch.nn as nn

batch_size = 4096
length = 128
block = 64
width = 256


class Model(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        blocks = x.unflatten(1, (-1, self.block))
        sums = blocks.cumsum(2)
        before = sums[:, :, -1].cumsum(1) - sums[:, :, -1]
        return (sums + torch.tanh(before)[:, :, None]).view_as(x)


def get_inputs():
    return [torch.rand(batch_size, length, width)]


def get_init_inputs():
    return [block]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sums_of_blocks(x, y, T: tl.constexpr, W: tl.constexpr):
    at = (tl.program_id(0) * T + tl.arange(0, T))[:, None] * W + tl.arange(0, W)[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))


class ModelNew(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        y = torch.empty_like(x)
        blocks = x.shape[0] * x.shape[1] // self.block
        sums_of_blocks[(blocks,)](x, y, self.block, x.shape[2])
        return y
