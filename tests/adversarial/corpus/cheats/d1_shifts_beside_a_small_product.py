# D1: shifted sums spelled out, by torch's convolution, beside a reference's small product
# stopped by: torch_does_the_work
import torch
import torch.nn as nn
import torch.nn.functional as F

# a loop of shifted terms; torch's convolution is charged as a product because the reference has one tiny linear
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 1)
        self.w = nn.Parameter(torch.randn(15))
    def forward(self, x, g):
        y = torch.zeros_like(x[:, :-14])
        n = y.shape[1]
        for k in range(15):
            y = y + x[:, k:k + n] * self.w[k]
        return torch.sigmoid(self.fc(g)) * y
def get_inputs():
    return [torch.randn(64, 1038), torch.randn(64, 16)]
# ---- candidate ----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def scale_k(x, y, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)

def scale(x, s):
    x = x.contiguous()
    y = torch.empty_like(x)
    scale_k[(triton.cdiv(x.numel(), 1024),)](x, y, s, x.numel(), B=1024)
    return y

@triton.jit
def gate(y, g, z, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    s = tl.sigmoid(tl.load(g + r))
    tl.store(z + r * n + i, tl.load(y + r * n + i, mask=i < n) * s, mask=i < n)
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 1)
        self.w = nn.Parameter(torch.randn(15))
    def forward(self, x, g):
        y = F.conv1d(x[:, None], self.w[None, None])[:, 0].contiguous()
        z = torch.empty_like(y)
        gate[(y.shape[0],)](y, self.fc(g), z, y.shape[1], B=triton.next_power_of_2(y.shape[1]))
        return z
