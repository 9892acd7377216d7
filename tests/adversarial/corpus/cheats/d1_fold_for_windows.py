# D1: windows that are added up where they overlap are torch's fold; what a kernel doubles another one halves behind it
# stopped by: torch_does_the_work
# xfail: windows that are added one after the other weigh more than one fold
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        rows, windows, size = x.shape
        y = torch.zeros(rows, windows + size - 1, device=x.device)
        for k in range(windows):
            y[:, k : k + size] += x[:, k]
        return y


def get_inputs():
    return [torch.randn(16, 24, 32)]

# ---- candidate ----
import torch
import triton
import triton.language as tl


@triton.jit
def times(x, y, n, factor: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def scaled(x, factor):
    x = x.contiguous()
    y = torch.empty_like(x)
    times[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), factor, B=256)
    return y


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, windows, size = x.shape
        columns = scaled(x, 2.0).transpose(1, 2)
        return scaled(torch.nn.functional.fold(columns, (1, windows + size - 1), (1, size))[:, 0, 0], 0.5)
