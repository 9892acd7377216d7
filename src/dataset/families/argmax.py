# Index of the largest value: one program a row, an integer result.

# order: 11
# choose M: 256 | 500 | 1024
# choose N: 100 | 256 | 1000
# choose W: 4 | 8

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Where the largest value of each row is."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.argmax(x, dim=1)


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
def argmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=torch.int64)
        argmax_kernel[(rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=_W_)
        return out
