# O5: lanes of one store write different values to one place
# stopped by: runtime_error
import torch
import torch.nn as nn
import torch.nn.functional as F

# several lanes of one store write one place: which one stays is not defined
class Model(nn.Module):
    def forward(self, s):
        n = s.shape[0]
        y = torch.zeros(8, dtype=torch.int64, device=s.device)
        return y.scatter_reduce(0, s, torch.arange(n, device=s.device), "amax")
def get_inputs():
    return [torch.randint(0, 8, (512,))]
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
def k(s, y, N: tl.constexpr):
    i = tl.arange(0, N)
    g = tl.load(s + i)
    tl.store(y + g, i.to(tl.int64))
class ModelNew(nn.Module):
    def forward(self, s):
        y = torch.zeros(8, dtype=torch.int64, device=s.device)
        k[(1,)](s, y, 512)
        return y
