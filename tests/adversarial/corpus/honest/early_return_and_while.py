# Programs that return at once, a while loop over the length of a row, a hint and an eviction policy.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device)[None, :] < lengths[:, None]
        return torch.where(mask, x, 0).sum(1) / lengths


def get_inputs():
    return [torch.randn(32, 257), torch.randint(1, 257, (32,))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def masked_mean(x, lengths, y, R, L, B: tl.constexpr):
    row = tl.program_id(0)
    if row >= R:
        return
    n = tl.load(lengths + row).to(tl.int32)
    tl.assume(n > 0)
    acc = tl.zeros((B,), tl.float32)
    at = 0
    while at < n:
        i = at + tl.arange(0, B)
        acc += tl.load(x + row * L + i, mask=i < n, other=0.0, eviction_policy="evict_first")
        at += B
    tl.store(y + row, tl.sum(acc, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        y = x.new_empty(x.shape[0])
        masked_mean[(triton.next_power_of_2(x.shape[0]) + 3,)](x, lengths, y, x.shape[0], x.shape[1], B=64)
        return y
