# Quantiles of the normal distribution and counts of bits, by libdevice's erfinv, rcbrt, popc, clz and ffs.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, bits):
        normal = torch.erfinv(2 * x - 1) * 2**0.5 * x ** (-1 / 3)
        places = torch.arange(31, device=bits.device)
        one = (bits[:, None] >> places) & 1
        first = torch.where(one == 1, places, 31).amin(1) + 1
        last = torch.where(one == 1, places, -1).amax(1)
        return normal, torch.stack([one.sum(1), 31 - last, first])


def get_inputs():
    return [torch.rand(1000) * 0.98 + 0.01, torch.randint(1, 1 << 30, (1000,), dtype=torch.int32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def quantiles(x, bits, y, counts, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m, other=0.5)
    tl.store(y + i, libdevice.erfinv(2 * v - 1) * 1.4142135623730951 * libdevice.rcbrt(v), mask=m)
    b = tl.load(bits + i, mask=m, other=1)
    tl.store(counts + i, libdevice.popc(b).to(tl.int64), mask=m)
    tl.store(counts + n + i, libdevice.clz(b).to(tl.int64), mask=m)
    tl.store(counts + 2 * n + i, libdevice.ffs(b).to(tl.int64), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, bits):
        n = x.numel()
        y, counts = torch.empty_like(x), torch.empty((3, n), dtype=torch.int64, device=x.device)
        quantiles[(triton.cdiv(n, 256),)](x, bits, y, counts, n, B=256)
        return y, counts
