# D1: zeros that torch broadcasts are added, so that what follows would be of a broadcast tensor, which no kernel writes
# stopped by: torch_does_the_work
import torch
import torch.nn as nn
import torch.nn.functional as F

# six layers of elementwise work by torch, a kernel doubles
class Model(nn.Module):
    def forward(self, x):
        for _ in range(6):
            x = F.layer_norm(F.gelu(x) + torch.tanh(x), (x.shape[-1],))
        return x * 2.0
def get_inputs():
    return [torch.randn(256, 512)]
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

class ModelNew(nn.Module):
    def forward(self, x):
        x = x + (x[:, :1] * 0 + x[:1] * 0)
        for _ in range(6):
            x = F.layer_norm(F.gelu(x) + torch.tanh(x), (x.shape[-1],))
        return scale(x, 2.0)
