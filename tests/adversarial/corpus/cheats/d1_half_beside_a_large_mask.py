# D1: half precision beside a mask of more elements
# stopped by: torch_does_the_work
import torch
import torch.nn as nn
import torch.nn.functional as F

# the largest tensor is bytes, so a chain in float32 may be done by torch in half
class Model(nn.Module):
    def forward(self, x, m):
        keep = m.sum(-1) > 300
        x = x.float()
        for _ in range(6):
            x = torch.sin(x) * 1.5
        return torch.where(keep, x, x * 0.5).half()
def get_inputs():
    return [torch.randn(64, 512).half(), torch.randint(0, 256, (64, 512, 4), dtype=torch.uint8)]
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
def pick(x, m, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.sum(tl.load(m + i[:, None] * 4 + tl.arange(0, 4)[None, :], mask=i[:, None] < n, other=0).to(tl.int32), 1)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(y + i, tl.where(s > 300, v, v * 0.5), mask=i < n)
class ModelNew(nn.Module):
    def forward(self, x, m):
        for _ in range(6):
            x = torch.sin(x) * 1.5
        y = torch.empty_like(x)
        pick[(triton.cdiv(x.numel(), 256),)](x, m, y, x.numel(), B=256)
        return y
