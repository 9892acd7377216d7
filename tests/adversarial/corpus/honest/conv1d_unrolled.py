# Loops that are unrolled (tl.static_range), and a grid of a lambda.
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 16, 5, padding=2)

    def forward(self, x):
        return F.silu(self.conv(x))


def get_inputs():
    return [torch.randn(4, 8, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def conv_silu(x, w, b, y, L, CI: tl.constexpr, CO: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    n, t = tl.program_id(1), tl.program_id(0) * B + tl.arange(0, B)
    o = tl.arange(0, CO)
    acc = tl.zeros((CO, B), tl.float32) + tl.load(b + o)[:, None]
    for c in tl.static_range(CI):
        for k in tl.static_range(K):
            at = t + k - K // 2
            v = tl.load(x + (n * CI + c) * L + at, mask=(at >= 0) & (at < L), other=0.0)
            acc += tl.load(w + (o * CI + c) * K + k)[:, None] * v[None, :]
    tl.store(y + (n * CO + o[:, None]) * L + t[None, :], acc * tl.sigmoid(acc), mask=t[None, :] < L)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 16, 5, padding=2)

    def forward(self, x):
        y = torch.empty(x.shape[0], 16, x.shape[2], device=x.device, dtype=x.dtype)
        grid = lambda meta: (triton.cdiv(x.shape[2], meta["B"]), x.shape[0])
        conv_silu[grid](x, self.conv.weight, self.conv.bias, y, x.shape[2], CI=8, CO=16, K=5, B=64, num_warps=2)
        return y
