# O5: counts on the order of tl.reshape(can_reorder=True)
# stopped by: mismatch
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.t().contiguous() * 2.0


def get_inputs():
    return [torch.randn(32, 64)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice_transposed(x, y, M: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    v = tl.reshape(tl.trans(a), (M * N,), can_reorder=True)
    tl.store(y + tl.arange(0, M * N), v * 2.0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(64, 32, device=x.device)
        twice_transposed[(1,)](x, y, 32, 64)
        return y
