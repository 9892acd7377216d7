# A feed-forward layer behind torch's attention over heads that are views of one product.
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.f = nn.Linear(32, 128)
        self.g = nn.Linear(128, 32)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 4, 8).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        return self.g(torch.relu(self.f(a)))


def get_inputs():
    return [torch.randn(2, 24, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def f(x, w1, b1, w2, b2, y, M, D: tl.constexpr, H: tl.constexpr, BM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d, h = tl.arange(0, D), tl.arange(0, H)
    t = tl.load(x + m[:, None] * D + d[None, :], mask=m[:, None] < M, other=0.0)
    u = tl.dot(t, tl.load(w1 + h[None, :] * D + d[:, None]), input_precision="ieee") + tl.load(b1 + h)[None, :]
    u = tl.maximum(u, 0.0)
    o = tl.dot(u, tl.load(w2 + d[None, :] * H + h[:, None]), input_precision="ieee") + tl.load(b2 + d)[None, :]
    tl.store(y + m[:, None] * D + d[None, :], o, mask=m[:, None] < M)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.f = nn.Linear(32, 128)
        self.g = nn.Linear(128, 32)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 4, 8).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        y = torch.empty_like(a)
        weights = self.f.weight, self.f.bias, self.g.weight, self.g.bias
        f[(triton.cdiv(B * T, 16),)](a, *weights, y, B * T, D=C, H=128, BM=16)
        return y
