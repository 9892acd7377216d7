# Running sum: a scan, one program a row.

# order: 10
# choose M: 128 | 256 | 500
# choose N: 100 | 256 | 500 | 1024
# choose W: 4 | 8

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Running sum along each row."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.cumsum(x, dim=1)


batch_size = _M_
features = _N_


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return []


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, tl.cumsum(x, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty_like(x)
        cumsum_kernel[(rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=_W_)
        return out
