# import gc and a collection in the constructor (H1): what people write who ran out of memory.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, torch.log1p(x.abs()), -torch.log1p(x.abs()))


def get_inputs():
    return [torch.randn(10, 99)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl
import gc
import os
import sys

os.environ.setdefault("TRITON_PRINT_AUTOTUNING", "0")


@triton.jit
def signed_log(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    size = tl.log(1 + tl.abs(v))
    tl.store(y + i, tl.where(v > 0, size, -size), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        gc.collect()
        torch.cuda.empty_cache()
        assert sys.version_info >= (3, 8)

    def forward(self, x):
        y = torch.empty_like(x)
        signed_log[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
        return y
