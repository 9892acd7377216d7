# nn.ReLU(inplace=True): the kernel writes where the reference writes.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(x) + 1


def get_inputs():
    return [torch.randn(7, 70)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_inplace_plus_one(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.maximum(tl.load(x + i, mask=i < n), 0.0)
    tl.store(x + i, v, mask=i < n)
    tl.store(y + i, v + 1, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_inplace_plus_one[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y
