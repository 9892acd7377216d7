# A product by torch in half precision as the reference's, all that follows it by a kernel that reads the halves.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 256)

    def forward(self, x):
        h = nn.functional.linear(x.half(), self.fc.weight.half(), self.fc.bias.half()).float()
        h = h * torch.sigmoid(h)
        return torch.tanh(h) * 0.5 + h


def get_inputs():
    return [torch.randn(256, 16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def epilogue(h, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(h + i, mask=i < n).to(tl.float32)
    v = v * tl.sigmoid(v)
    t = 2 * tl.sigmoid(2 * v) - 1
    tl.store(y + i, t * 0.5 + v, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 256)

    def forward(self, x):
        h = nn.functional.linear(x.half(), self.fc.weight.half(), self.fc.bias.half())
        y = torch.empty_like(h, dtype=torch.float32)
        epilogue[(triton.cdiv(h.numel(), 512),)](h, y, h.numel(), B=512)
        return y
