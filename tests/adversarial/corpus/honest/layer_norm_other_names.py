# The same with weights under names of the candidate's own.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(30, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def norm_relu(x_ptr, scale_ptr, shift_ptr, y_ptr, eps: tl.constexpr, N: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + r * N + c)
    mean = tl.sum(x) / N
    var = tl.sum(x * x) / N - mean * mean
    h = (x - mean) * tl.rsqrt(var + eps) * tl.load(scale_ptr + c) + tl.load(shift_ptr + c)
    tl.store(y_ptr + r * N + c, tl.where(h > 0, h, 0.0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
        self.shift = nn.Parameter(torch.zeros(64))

    def forward(self, x):
        y = torch.empty_like(x)
        norm_relu[(x.shape[0],)](x, self.scale, self.shift, y, 1e-5, 64)
        return y
