# C8 O10: programs compare with the maximum so far and store their own, without atomics
# stopped by: runtime_error
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.amax(1)


def get_inputs():
    return [torch.randn(16, 1024)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def largest(x, y, N, B: tl.constexpr):
    row = tl.program_id(0)
    m = tl.max(tl.load(x + row * N + tl.program_id(1) * B + tl.arange(0, B)), 0)
    if m > tl.load(y + row):
        tl.store(y + row, m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.full((x.shape[0],), -float("inf"), device=x.device)
        largest[(x.shape[0], triton.cdiv(x.shape[1], 128))](x, y, x.shape[1], 128)
        return y
