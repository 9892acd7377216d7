# A tuner that zeroes one output before each try and puts another one back.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(), x * 2


def get_inputs():
    return [torch.randn(2000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"B": b}, num_warps=w, num_stages=s) for b, w, s in [(128, 2, 1), (256, 4, 2), (512, 8, 3)]],
                 key=["n"], reset_to_zero=["total"], restore_value=["y"], warmup=1, rep=1)
@triton.jit
def both(x, y, total, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v * 2, mask=i < n)
    tl.atomic_add(total, tl.sum(v), sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, x):
        y, total = torch.empty_like(x), torch.zeros((), device=x.device)
        both[lambda m: (triton.cdiv(x.numel(), m["B"]),)](x, y, total, x.numel())
        return total, y
