# C8 O10: a scan whose programs read the carry that the program before them left
# stopped by: runtime_error
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 0)


def get_inputs():
    return [torch.randn(512)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def scan(x, y, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    carry = tl.load(y + pid * B - 1, mask=pid > 0, other=0.0)
    tl.store(y + i, carry + tl.cumsum(tl.load(x + i)))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scan[(4,)](x, y, x.numel(), B=128)
        return y
