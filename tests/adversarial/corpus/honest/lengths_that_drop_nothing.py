# Lengths that are all the whole: the kernel reads them all the same.
import torch


class Model(torch.nn.Module):
    def forward(self, x, lengths, mask):
        kept = torch.arange(x.shape[1], device=x.device)[None, :] < lengths[:, None]
        return torch.where(kept[:, :, None], torch.tanh(x), 0.0) * mask[:, :, None]


def get_inputs():
    return [torch.randn(8, 32, 40), torch.full((8,), 32), torch.ones(8, 32, dtype=torch.int32)]

# ---- candidate ----
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def masked(x, lengths, mask, y, steps, width, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    inside = i < width
    kept = (row % steps < tl.load(lengths + row // steps)) & (tl.load(mask + row) != 0)
    a = libdevice.tanh(tl.load(x + row * width + i, mask=inside))
    tl.store(y + row * width + i, tl.where(kept, a, 0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, lengths, mask):
        y = torch.empty_like(x)
        masked[(x.shape[0] * x.shape[1],)](x, lengths, mask, y, x.shape[1], x.shape[2], B=64)
        return y
