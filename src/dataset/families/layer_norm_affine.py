# Layer norm with learned scale and shift: one program a row.

# order: 6
# choose M: 256 | 512 | 1000
# choose N: 256 | 500 | 768 | 1024
# choose W: 4 | 8

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Layer norm with learned scale and shift."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return F.layer_norm(x, (x.shape[1],), self.weight, self.bias)


batch_size = _M_
features = _N_


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features]


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, centred * tl.rsqrt(variance + 1e-5) * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty_like(x)
        layer_norm_kernel[(rows,)](x, self.weight, self.bias, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=_W_)
        return out
