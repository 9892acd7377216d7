# tl.histogram of integers, summed over blocks with atomics.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.stack([(x == k).sum() for k in range(16)])


def get_inputs():
    return [torch.randint(0, 16, (512,), dtype=torch.int32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def histogram(x, y, BINS: tl.constexpr, B: tl.constexpr):
    counts = tl.histogram(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), BINS)
    tl.atomic_add(y + tl.arange(0, BINS), counts.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(16, device=x.device, dtype=torch.int64)
        histogram[(x.numel() // 128,)](x, y, BINS=16, B=128)
        return y
