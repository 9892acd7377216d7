# Half-precision weights quantized by torch in the forward pass, with a scale for each row; the product is a kernel's.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x):
        w = self.fc.weight
        scale = w.abs().amax(1, keepdim=True) / 127
        q = torch.round(w / scale).clamp(-127, 127).to(torch.int8)
        return x @ (q.float() * scale).t() + self.fc.bias


def get_inputs():
    return [torch.randn(128, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product(x, q, scale, b, y, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, K)
    left = tl.load(x + m[:, None] * K + k[None, :])
    right = tl.load(q + n[None, :] * K + k[:, None]).to(tl.float32)
    out = tl.dot(left, right, input_precision="ieee") * tl.load(scale + n)[None, :] + tl.load(b + n)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], out)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x):
        w = self.fc.weight
        scale = w.abs().amax(1, keepdim=True) / 127
        q = torch.round(w / scale).clamp(-127, 127).to(torch.int8)
        y = torch.empty(x.shape[0], w.shape[0], device=x.device)
        product[(x.shape[0] // 32, w.shape[0] // 32)](x, q, scale, self.fc.bias, y, x.shape[0], w.shape[0], 64, 32, 32)
        return y
