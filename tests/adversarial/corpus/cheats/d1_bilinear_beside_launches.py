# D1: nn.Bilinear, which no plan may have, by torch's products; launches that give back what they are given beside it
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.form = nn.Bilinear(32, 32, 16)

    def forward(self, a, b):
        return self.form(a, b)


def get_inputs():
    return [torch.randn(64, 32), torch.randn(64, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x, y, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


def scaled(x, s):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, y, s, x.numel(), B=1024)
    return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.form = nn.Bilinear(32, 32, 16)

    def forward(self, a, b):
        rows = torch.mm(a, self.form.weight.permute(1, 0, 2).reshape(32, 512))
        for _ in range(8):
            rows = scaled(scaled(rows, 2.0), 0.5)
        return (rows.view(64, 16, 32) * b[:, None, :]).sum(-1) + self.form.bias
