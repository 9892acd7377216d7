# Places are cast to int32 by torch before they are looked up and added.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, table, places):
        return table[places].sum(1) + places.float().mean()


def get_inputs():
    return [torch.randn(100, 32), torch.randint(0, 100, (64, 12))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums(table, places, mean, y, L: tl.constexpr, D: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, D)
    total = tl.zeros((D,), tl.float32)
    for k in range(L):
        total += tl.load(table + tl.load(places + row * L + k) * D + d)
    tl.store(y + row * D + d, total + tl.load(mean))


class ModelNew(nn.Module):
    def forward(self, table, places):
        y = torch.empty(places.shape[0], table.shape[1], device=table.device)
        small = places.to(torch.int32)
        sums[(places.shape[0],)](table, small, small.float().mean(), y, places.shape[1], table.shape[1])
        return y
