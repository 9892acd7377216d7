# int32 throughout: shifts, remainders, exclusive or.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return ((x << 3) ^ (x >> 2)) % 1000


def get_inputs():
    return [torch.randint(0, 100000, (777,), dtype=torch.int32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mix(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(y + i, ((v << 3) ^ (v >> 2)) % 1000, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        mix[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y
