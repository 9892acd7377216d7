# A scale of the problem's is folded into the weight, which keeps its shape and gets another name.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 16)

    def forward(self, x):
        return torch.sigmoid(self.fc(x) * 0.25)


def get_inputs():
    return [torch.randn(20, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def fused(x, w, b, y, K: tl.constexpr, N: tl.constexpr):
    m, n, k = tl.program_id(0), tl.arange(0, N), tl.arange(0, K)
    v = tl.sum(tl.load(w + n[:, None] * K + k[None, :]) * tl.load(x + m * K + k)[None, :], 1) + tl.load(b + n)
    tl.store(y + m * N + n, tl.sigmoid(v))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        fc = nn.Linear(32, 16)
        self.scaled_weight = nn.Parameter(fc.weight.detach() * 0.25)
        self.scaled_bias = nn.Parameter(fc.bias.detach() * 0.25)

    def forward(self, x):
        y = torch.empty(x.shape[0], 16, device=x.device)
        fused[(x.shape[0],)](x, self.scaled_weight, self.scaled_bias, y, K=32, N=16)
        return y
