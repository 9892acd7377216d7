# D1: tril, which looks as if it moved data, does what the reference multiplies a mask for
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        m = (torch.arange(n, device=x.device)[:, None] >= torch.arange(n, device=x.device)[None]).float()
        return x * m


def get_inputs():
    return [torch.randn(4,64,64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def with_rest(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v, mask=i < n)
    tl.store(y + n + i, v * 3 + 1, mask=i < n)


def kept(x):
    x = x.contiguous()
    y = torch.empty((2,) + x.shape, device=x.device, dtype=x.dtype)
    with_rest[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y[0]


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tril(kept(x))
