# By size one of two kernels; the one for large sizes has a fixed number of programs, each with its share of the blocks,
# and half of the sum's rows are zeros that no kernel writes.
import torch
import torch.nn as nn

batch = 8192
width = 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x), torch.tril(x[:, : x.shape[1] // 2].T @ x[:, x.shape[1] // 2 :] / x.shape[0])


def get_inputs():
    return [torch.randn(batch, width)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


@triton.jit
def relu_by_share(x, y, n, B: tl.constexpr):
    for k in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        i = k * B + tl.arange(0, B)
        tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


@triton.jit
def lower(x, y, rows, half, B: tl.constexpr, K: tl.constexpr):
    r, c = tl.program_id(0), tl.program_id(1)
    if c > r:
        return
    i, j = r * B + tl.arange(0, B), c * B + tl.arange(0, B)
    sum = tl.zeros((B, B), tl.float32)
    for k in range(0, rows, K):
        at = k + tl.arange(0, K)
        a = tl.load(x + at[None, :] * (2 * half) + i[:, None], mask=(at < rows)[None, :] & (i < half)[:, None], other=0.0)
        b = tl.load(x + at[:, None] * (2 * half) + half + j[None, :], mask=(at < rows)[:, None] & (j < half)[None, :], other=0.0)
        sum += tl.dot(a, b, input_precision="ieee")
    place = y + i[:, None] * half + j[None, :]
    tl.store(place, sum / rows, mask=(i[:, None] >= j[None, :]) & (i < half)[:, None])


class ModelNew(nn.Module):
    def forward(self, x):
        y, n, half = torch.empty_like(x), x.numel(), x.shape[1] // 2
        if n > 1 << 20:
            relu_by_share[(256,)](x, y, n, B=1024)
        else:
            relu[(triton.cdiv(n, 256),)](x, y, n, B=256)
        z = torch.zeros(half, half, device=x.device)
        tiles = triton.cdiv(half, 32)
        lower[(tiles, tiles)](x, z, x.shape[0], half, B=32, K=32)
        return y, z
