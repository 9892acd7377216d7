# O2: states that blocks hand on are left out, and of a sequence whose sizes all meet smaller ones there is one block
# stopped by: mismatch
import torch
import torch.nn as nn

batch_size = 2048
length = 128
heads = 8
head = 64
state = 16
block = 64


class Model(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, b, c):
        x, b, c = [t.unflatten(1, (-1, self.block)).transpose(2, 3) for t in (x, b, c)]
        within = torch.tril(c @ b.mT) @ x
        states = (b.mT @ x).cumsum(1)
        before = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)
        return (within + c @ before).transpose(2, 3).flatten(1, 2)


def get_inputs():
    b, c = torch.randn(2, batch_size, length, heads, state)
    return [torch.randn(batch_size, length, heads, head), b, c]


def get_init_inputs():
    return [block]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def block_of_a_head(x, b, c, y, H, L: tl.constexpr, P: tl.constexpr, N: tl.constexpr):
    head, block, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = sequence * tl.num_programs(1)
    i, n, p = tl.arange(0, L), tl.arange(0, N), tl.arange(0, P)
    rows = ((first + block) * L + i) * H + head
    queries = tl.load(c + rows[:, None] * N + n[None, :])
    sums = tl.zeros((L, P), tl.float32)
    for j in range(block, block + 1):
        at = ((first + j) * L + i) * H + head
        keys = tl.load(b + at[None, :] * N + n[:, None])
        weights = tl.dot(queries, keys, input_precision="ieee")
        weights = tl.where((j < block) | (i[:, None] >= i[None, :]), weights, 0.0)
        sums = tl.dot(weights, tl.load(x + at[:, None] * P + p[None, :]), sums, input_precision="ieee")
    tl.store(y + rows[:, None] * P + p[None, :], sums)


class ModelNew(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, b, c):
        B, T, H, P = x.shape
        y = torch.empty_like(x)
        block_of_a_head[(H, T // self.block, B)](x, b, c, y, H, L=self.block, P=P, N=b.shape[3])
        return y
