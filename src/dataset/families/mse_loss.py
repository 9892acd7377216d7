# Mean over all elements: partial sums by one kernel, their mean by a second.

# order: 7
# choose M: 256 | 500 | 1024
# choose N: 512 | 1000 | 2048
# choose B: 1024 | 2048

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Mean squared error."""

    def __init__(self):
        super().__init__()

    def forward(self, prediction, target):
        return F.mse_loss(prediction, target)


batch_size = _M_
features = _N_


def get_inputs():
    return [torch.randn(batch_size, features), torch.randn(batch_size, features)]


def get_init_inputs():
    return []


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squared_error_kernel(p_ptr, t_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    p = tl.load(p_ptr + offsets, mask=mask, other=0.0)
    t = tl.load(t_ptr + offsets, mask=mask, other=0.0)
    tl.store(partial_ptr + pid, tl.sum((p - t) * (p - t), axis=0))


@triton.jit
def mean_kernel(partial_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(partial_ptr + offsets, mask=offsets < count, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, prediction, target):
        n = prediction.numel()
        count = triton.cdiv(n, _B_)
        partial = torch.empty(count, device=prediction.device, dtype=torch.float32)
        out = torch.empty((), device=prediction.device, dtype=torch.float32)
        squared_error_kernel[(count,)](prediction, target, partial, n, BLOCK=_B_)
        mean_kernel[(1,)](partial, out, count, n, BLOCK=1024)
        return out
