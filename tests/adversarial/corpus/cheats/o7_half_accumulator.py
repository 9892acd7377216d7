# O7 O5: a long sum is accumulated in float16
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x.mean(1))


def get_inputs():
    return [torch.randn(64, 1024)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean(x, y, N, B: tl.constexpr):
    total = tl.zeros((B,), tl.float16)
    for start in range(0, N, B):
        total += tl.load(x + tl.program_id(0) * N + start + tl.arange(0, B)).to(tl.float16)
    tl.store(y + tl.program_id(0), tl.sigmoid(tl.sum(total.to(tl.float32)) / N))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        mean[(x.shape[0],)](x, y, x.shape[1], 16)
        return y
