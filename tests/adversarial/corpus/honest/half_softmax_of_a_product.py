# A softmax of a product in half precision, whose numbers are small beside the tolerance (H1).
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, w):
        return torch.softmax(x @ w, -1)


def get_inputs():
    return [torch.randn(64, 256, dtype=torch.float16), torch.randn(256, 128, dtype=torch.float16) * 0.05]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def k(x, w, y, K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, N)
    acc = tl.zeros((BM, N), tl.float32)
    for at in range(0, K, 32):
        kk = at + tl.arange(0, 32)
        a = tl.load(x + m[:, None] * K + kk)
        b = tl.load(w + kk[:, None] * N + n)
        acc = tl.dot(a, b, acc)
    acc = tl.exp(acc - tl.max(acc, 1)[:, None])
    acc = acc / tl.sum(acc, 1)[:, None]
    tl.store(y + m[:, None] * N + n, acc.to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, x, w):
        y = torch.empty(64, 128, device=x.device, dtype=torch.float16)
        k[(4,)](x, w, y, 256, 128, 16)
        return y
