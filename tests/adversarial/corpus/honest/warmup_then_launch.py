# kernel.warmup(...) compiles ahead of time, the compiled kernel is launched (H7).
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * x + 1


def get_inputs():
    return [torch.randn(1024)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def square(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v * v + 1, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = None

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        grid = (triton.cdiv(n, 256), 1, 1)
        if self.kernel is None:
            self.kernel = square.warmup(x, y, n, B=256, grid=grid)
            self.kernel._init_handles()
        self.kernel[grid](x, y, n, 256)
        return y
