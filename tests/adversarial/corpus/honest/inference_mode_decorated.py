# A forward that is decorated with inference_mode, as serving code is: torch around the kernel in calls made of others.
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.fc = nn.Linear(24, 40)
        self.register_buffer("scale", torch.rand(40))

    def forward(self, x):
        h = torch.tanh(self.fc(self.norm(x)) * self.scale)
        return F.pad(h, (1, 1)).reshape(4, 8, 42).transpose(1, 2)


def get_inputs():
    return [torch.randn(32, 24)]

# ---- candidate ----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def linear_scaled_tanh(x, w, b, scale, y, K: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr):
    row, k, n = tl.program_id(0), tl.arange(0, BK), tl.arange(0, BN)
    left = tl.load(x + row * K + k, mask=k < K, other=0.0)
    right = tl.load(w + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    h = tl.sum(left[None, :] * right, 1) + tl.load(b + n, mask=n < N, other=0.0)
    h = h * tl.load(scale + n, mask=n < N, other=0.0)
    tl.store(y + row * N + n, 4 * tl.sigmoid(2 * h) - 2, mask=n < N)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.fc = nn.Linear(24, 40)
        self.register_buffer("scale", torch.rand(40))

    @torch.inference_mode()
    def forward(self, x):
        x = self.norm(x).contiguous()
        y = torch.empty(x.shape[0], 40, device=x.device)
        linear_scaled_tanh[(x.shape[0],)](x, self.fc.weight, self.fc.bias, self.scale, y, K=24, N=40, BK=32, BN=64)
        half = torch.tensor([0.5], device=x.device)
        return F.pad(y.mul_(half), (1, 1)).reshape(4, 8, 42).mT
