# torch.quantile at several places, behind a kernel: torch compares the devices of both before it records anything.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return torch.quantile(torch.tanh(self.layer(x)), torch.tensor([0.25, 0.75], device=x.device), dim=1)


def get_inputs():
    return [torch.randn(128, 64)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def tanh_of_linear(x, w, b, y, K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    c = tl.load(w + n[None, :] * K + k[:, None])
    acc = tl.dot(a, c, input_precision="ieee") + tl.load(b + n)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], libdevice.tanh(acc))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        y = torch.empty(x.shape[0], 64, device=x.device)
        tanh_of_linear[(x.shape[0] // 16,)](x, self.layer.weight, self.layer.bias, y, K=64, N=64, BM=16)
        return torch.quantile(y, torch.tensor([0.25, 0.75], device=x.device), dim=1)
