# D1: torch does nearly all of it where sizes are the problem's own, beside a launch
# stopped by: torch_does_the_work
import torch
import torch.nn as nn

batch = 4096
width = 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(batch, width)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        m = min(n, 1 << 20)
        relu[(triton.cdiv(m, 256),)](x, y, m, B=256)
        if n > m:
            y.view(-1)[m:] = torch.relu(x.view(-1)[m:]) * 2
        return y
