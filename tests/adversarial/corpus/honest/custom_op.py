# The launch behind an operator of torch.library's, as PyTorch's own page on Triton kernels writes it.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.sin(x) + torch.cos(y)


def get_inputs():
    return [torch.randn(64, 300), torch.randn(64, 300)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sin_cos(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.sin(tl.load(x + i, mask=mask)) + tl.cos(tl.load(y + i, mask=mask)), mask=mask)


@torch.library.custom_op("corpus::sin_cos", mutates_args=())
def sin_cos_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    sin_cos[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


@sin_cos_op.register_fake
def _(x, y):
    return torch.empty_like(x)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.ops.corpus.sin_cos(x, y)
