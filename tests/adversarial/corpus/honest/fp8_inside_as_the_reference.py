# Eight-bit floats within, since the reference has them.
# handed: a plan has no tensors of eight-bit floats, which its reference makes.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, w):
        return (x.to(torch.float8_e5m2).float() @ w.to(torch.float8_e5m2).float())


def get_inputs():
    return [torch.randn(32, 64), torch.randn(64, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mm(a, b, c, K: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    m, n, k = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :]).to(tl.float8e5).to(tl.float32)
    w = tl.load(b + k[:, None] * N + n[None, :]).to(tl.float8e5).to(tl.float32)
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, w, input_precision="ieee"))


class ModelNew(nn.Module):
    def forward(self, x, w):
        c = torch.empty(32, 32, device=x.device)
        mm[(2,)](x, w, c, 64, 32, 16)
        return c
