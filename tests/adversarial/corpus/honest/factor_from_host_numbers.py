# A factor is summed up from numbers that the code spells out on the host, and asked for there.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        weights = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0])
        return torch.sigmoid(x * (weights / weights.sum()).square().sum().item()) * torch.sqrt(torch.tensor(2.0))


def get_inputs():
    return [torch.randn(64, 256)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_sigmoid(x, y, before, after, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, tl.sigmoid(tl.load(x + i) * before) * after)


class ModelNew(nn.Module):
    def forward(self, x):
        weights = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0])
        before = (weights / weights.sum()).square().sum().item()
        y = torch.empty_like(x)
        scaled_sigmoid[(x.shape[0],)](x, y, before, float(torch.sqrt(torch.tensor(2.0))), x.shape[1])
        return y
