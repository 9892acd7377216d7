# Means and variances are one call of torch's, as in the reference's batch norm; all that follows them is a kernel.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(96)

    def forward(self, x):
        return torch.softmax(self.norm(x), dim=1)


def get_inputs():
    return [torch.randn(128, 96) * 2 + 1]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def normed_softmax(x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, y_ptr, n, eps, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i < n
    at = tl.program_id(0) * n + i
    rstd = tl.rsqrt(tl.load(var_ptr + i, mask=mask, other=1.0) + eps)
    x = (tl.load(x_ptr + at, mask=mask, other=0.0) - tl.load(mean_ptr + i, mask=mask, other=0.0)) * rstd
    x = x * tl.load(w_ptr + i, mask=mask, other=0.0) + tl.load(b_ptr + i, mask=mask, other=0.0)
    x = tl.where(mask, x, float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, e / tl.sum(e, 0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(96)

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=0, unbiased=False)
        y = torch.empty_like(x)
        normed_softmax[(x.shape[0],)](x, mean, var, self.norm.weight, self.norm.bias, y, 96, self.norm.eps, B=128)
        return y
