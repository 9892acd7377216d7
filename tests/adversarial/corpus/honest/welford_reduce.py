# Variance by tl.reduce over triples with Welford's rule.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.var(x, dim=1, unbiased=False)


def get_inputs():
    return [torch.randn(26, 128) * 3 + 5]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    d = mean_b - mean_a
    share = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + d * share, m2_a + m2_b + d * d * n_a * share, n


@triton.jit
def variance(x, y, N: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, N)
    v = tl.load(x + r * N + i)
    _, m2, n = tl.reduce((v, tl.zeros_like(v), tl.full(v.shape, 1.0, tl.float32)), 0, welford)
    tl.store(y + r, m2 / n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        variance[(x.shape[0],)](x, y, N=x.shape[1])
        return y
