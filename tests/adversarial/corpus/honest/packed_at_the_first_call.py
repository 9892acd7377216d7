# The weight is laid out for the kernel when forward first sees it, and kept.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 48)

    def forward(self, x):
        return torch.relu(self.fc(x))


def get_inputs():
    return [torch.randn(40, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def linear_relu(x, w, b, y, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, K)
    left = tl.load(x + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
    right = tl.load(w + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
    acc = tl.dot(left, right, input_precision="ieee") + tl.load(b + n, mask=n < N, other=0.0)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], tl.maximum(acc, 0.0), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 48)
        self._packed = None

    def forward(self, x):
        if self._packed is None:
            self._packed = self.fc.weight.detach().t().contiguous()
        (M, K), N = x.shape, self.fc.out_features
        y = torch.empty(M, N, device=x.device, dtype=x.dtype)
        linear_relu[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, self._packed, self.fc.bias, y, M, N, K, 16, 16)
        return y
