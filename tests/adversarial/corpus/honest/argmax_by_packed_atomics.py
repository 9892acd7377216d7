# The largest element and its place in one 64-bit number, by atomic_max over parts of a row; a second kernel unpacks.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        values, indices = x.max(1)
        return values, indices


def get_inputs():
    return [torch.randn(16, 1000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def ordered(v):
    bits = v.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)


@triton.jit
def pack(x, best, N, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + row * N + i, mask=i < N, other=-float("inf"))
    key = ordered(v) * 4294967296 + (2147483647 - i).to(tl.int64)
    tl.atomic_max(best + row, tl.max(key, 0))


@triton.jit
def unpack(x, best, values, indices, N):
    row = tl.program_id(0)
    at = 2147483647 - (tl.load(best + row) & 0xFFFFFFFF)
    tl.store(indices + row, at)
    tl.store(values + row, tl.load(x + row * N + at))


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        best = torch.full((M,), -(2**63), device=x.device, dtype=torch.int64)
        values, indices = x.new_empty(M), torch.empty(M, device=x.device, dtype=torch.int64)
        pack[(M, triton.cdiv(N, 128))](x, best, N, 128)
        unpack[(M,)](x, best, values, indices, N)
        return values, indices
