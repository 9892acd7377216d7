# Torch casts to half precision, as the reference does; all between is a kernel's: none of the work is torch's.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 48)

    def forward(self, x):
        h = nn.functional.linear(x.half(), self.fc.weight.half(), self.fc.bias.half())
        return torch.sigmoid(h.float())


def get_inputs():
    return [torch.randn(96, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_sigmoid(x, w, b, y, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, K)
    left = tl.load(x + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
    right = tl.load(w + n[None, :] * K + k[:, None], mask=n[None, :] < N, other=0.0)
    out = tl.dot(left, right) + tl.load(b + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], tl.sigmoid(out), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 48)

    def forward(self, x):
        x, w, b = x.half(), self.fc.weight.half(), self.fc.bias.half()
        y = torch.empty(x.shape[0], w.shape[0], device=x.device)
        linear_sigmoid[(triton.cdiv(x.shape[0], 32), triton.cdiv(w.shape[0], 16))](
            x, w, b, y, x.shape[0], w.shape[0], x.shape[1], 32, 16
        )
        return y
