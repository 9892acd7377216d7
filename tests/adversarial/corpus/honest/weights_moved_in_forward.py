import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 24)
    def forward(self, x):
        return torch.relu(self.fc(x))


def get_inputs():
    return [torch.randn(10, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def k(x, w, b, y, N, K: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0)
    n, kk = tl.arange(0, BN), tl.arange(0, K)
    ww = tl.load(w + n[:, None] + kk[None, :] * N, mask=n[:, None] < N, other=0.0)
    acc = tl.sum(ww * tl.load(x + r * K + kk)[None, :], 1) + tl.load(b + n, mask=n < N, other=0.0)
    tl.store(y + r * N + n, tl.maximum(acc, 0), mask=n < N)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 24)
    def forward(self, x):
        self.fc.to(x.device)
        self.fc.float()
        old = self.fc.weight.data
        self.fc.weight.data = torch.empty_like(self.fc.weight).fill_(7.0)
        self.fc.weight.data = old.t().contiguous().t()
        y = torch.empty(x.shape[0], 24, device=x.device)
        k[(x.shape[0],)](x, self.fc.weight, self.fc.bias, y, 24, 32, 32)
        return y
