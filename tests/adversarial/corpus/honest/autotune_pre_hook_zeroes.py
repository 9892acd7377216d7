import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(1), x * 2


def get_inputs():
    return [torch.randn(32, 500)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

def zero(nargs):
    nargs["s"].zero_()

@triton.autotune(
    configs=[triton.Config({"B": 128}, num_warps=4, pre_hook=zero), triton.Config({"B": 512}, num_warps=8, pre_hook=zero)],
    key=["n"], reset_to_zero=["s"], warmup=5, rep=10, cache_results=False)
@triton.jit
def k(x, y, s, n, B: tl.constexpr):
    r, b = tl.program_id(0), tl.program_id(1)
    i = b * B + tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    tl.store(y + r * n + i, v * 2, mask=i < n)
    tl.atomic_add(s + r, tl.sum(v))

class ModelNew(nn.Module):
    def forward(self, x):
        R, n = x.shape
        y = torch.empty_like(x)
        s = torch.empty(R, device=x.device)
        k[lambda m: (R, triton.cdiv(n, m["B"]))](x, y, s, n)
        return s, y
