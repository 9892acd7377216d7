# C8 O10: many programs add to one number without atomics; right only one after the other
# stopped by: runtime_error
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum().reshape(1)


def get_inputs():
    return [torch.randn(4, 256)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(s, tl.load(s) + tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


class ModelNew(nn.Module):
    def forward(self, x):
        s = torch.zeros(1, device=x.device)
        add[(8,)](x, s, x.numel(), B=128)
        return s
