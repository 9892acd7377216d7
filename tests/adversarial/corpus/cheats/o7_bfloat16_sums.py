# O7: a float32 product whose operands are rounded to bfloat16
# stopped by: mismatch
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(32, 256), torch.randn(256, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mm(a, b, c, K: tl.constexpr, T: tl.constexpr):
    i, k, j = tl.arange(0, T), tl.arange(0, K), tl.arange(0, T)
    x = tl.load(a + i[:, None] * K + k[None, :]).to(tl.bfloat16)
    y = tl.load(b + k[:, None] * T + j[None, :]).to(tl.bfloat16)
    tl.store(c + i[:, None] * T + j[None, :], tl.dot(x, y))


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(32, 32, device=a.device)
        mm[(1,)](a, b, c, K=256, T=32)
        return c
