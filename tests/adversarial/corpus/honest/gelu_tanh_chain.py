# A chain of elementwise operations in one kernel, libdevice for tanh.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh") * 0.5 + x


def get_inputs():
    return [torch.randn(33, 129)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + offsets, 0.25 * x * (1 + libdevice.tanh(inner)) + x, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        n_elements = out.numel()
        grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
        gelu_kernel[grid](x, out, n_elements, BLOCK_SIZE=1024)
        return out
