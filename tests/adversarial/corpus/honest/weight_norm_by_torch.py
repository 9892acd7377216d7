import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrizations as P
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = P.weight_norm(nn.Linear(40, 24))
    def forward(self, x):
        return F.silu(self.fc(x))


def get_inputs():
    return [torch.randn(10, 40)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

import torch.nn.utils.parametrizations as P
@triton.jit
def k(x, w, b, y, N, K: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0)
    n, kk = tl.arange(0, BN), tl.arange(0, BK)
    m = (n[:, None] < N) & (kk[None, :] < K)
    ww = tl.load(w + n[:, None] * K + kk[None, :], mask=m, other=0.0)
    acc = tl.sum(ww * tl.load(x + r * K + kk, mask=kk < K, other=0.0)[None, :], 1) + tl.load(b + n, mask=n < N, other=0.0)
    tl.store(y + r * N + n, acc * tl.sigmoid(acc), mask=n < N)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = P.weight_norm(nn.Linear(40, 24))
    def forward(self, x):
        y = torch.empty(x.shape[0], 24, device=x.device)
        k[(x.shape[0],)](x, self.fc.weight, self.fc.bias, y, 24, 40, 32, 64)
        return y
