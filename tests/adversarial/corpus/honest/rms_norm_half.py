# torch's own RMSNorm behind a softmax from half to float: both are one call of torch's on a GPU.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(64, eps=1e-6)

    def forward(self, x):
        return self.norm(torch.softmax(x, -1, dtype=torch.float32))


def get_inputs():
    return [torch.randn(16, 64).half()]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softmax_norm(x, w, y, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + tl.program_id(0) * B + i).to(tl.float32)
    e = tl.exp(a - tl.max(a))
    p = e / tl.sum(e)
    tl.store(y + tl.program_id(0) * B + i, p * tl.rsqrt(tl.sum(p * p) / B + 1e-6) * tl.load(w + i))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(64, eps=1e-6)

    def forward(self, x):
        y = torch.empty(x.shape, device=x.device)
        softmax_norm[(x.shape[0],)](x, self.norm.weight, y, x.shape[1])
        return y
