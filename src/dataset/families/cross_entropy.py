# Cross entropy: one program a row, log-sum-exp less the chosen logit.

# order: 8
# choose M: 256 | 500 | 1024
# choose N: 100 | 512 | 1000
# choose W: 4 | 8

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Cross entropy of each row."""

    def __init__(self):
        super().__init__()

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, reduction="none")


batch_size = _M_
classes = _N_


def get_inputs():
    return [torch.randn(batch_size, classes), torch.randint(0, classes, (batch_size,))]


def get_init_inputs():
    return []


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-1e9)
    top = tl.max(x, axis=0)
    log_sum = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    target = tl.load(target_ptr + row)
    chosen = tl.load(x_ptr + row * n_cols + target)
    tl.store(out_ptr + row, log_sum - chosen)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, target):
        rows, n_cols = logits.shape
        out = torch.empty(rows, device=logits.device, dtype=logits.dtype)
        cross_entropy_kernel[(rows,)](logits, target, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=_W_)
        return out
