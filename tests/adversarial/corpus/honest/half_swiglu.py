# Half precision, computed in float32, two inputs from one tensor.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return nn.functional.silu(a) * b


def get_inputs():
    return [torch.randn(18, 128).half()]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def swiglu(x, y, rows, D: tl.constexpr):
    r, d = tl.program_id(0), tl.arange(0, D)
    a = tl.load(x + r * 2 * D + d).to(tl.float32)
    b = tl.load(x + r * 2 * D + D + d).to(tl.float32)
    tl.store(y + r * D + d, (a * tl.sigmoid(a) * b).to(y.type.element_ty))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        y = torch.empty(rows, width // 2, dtype=x.dtype, device=x.device)
        swiglu[(rows,)](x, y, rows, width // 2)
        return y
