# A loss of all pairs, which the reference broadcasts to: written by a kernel, its mean by torch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, p, t):
        return torch.mean(torch.clamp(1 - p * t, min=0))


def get_inputs():
    return [torch.randn(128, 1), torch.randint(0, 2, (128,)).float() * 2 - 1]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(p, t, y, N, M, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.program_id(1) * B + tl.arange(0, B)
    v = 1.0 - tl.load(p + r) * tl.load(t + i, mask=i < M)
    tl.store(y + r * M + i, tl.maximum(v, 0.0), mask=i < M)


class ModelNew(nn.Module):
    def forward(self, p, t):
        N, M = p.shape[0], t.shape[0]
        y = torch.empty(N, M, device=p.device)
        k[(N, triton.cdiv(M, 128))](p, t, y, N, M, B=128)
        return torch.mean(y)
