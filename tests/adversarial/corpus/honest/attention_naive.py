# Scores, softmax and values of one query row in one program.
import torch
import torch.nn as nn
import math


class Model(nn.Module):
    def forward(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        return torch.matmul(torch.softmax(scores, dim=-1), v)


def get_inputs():
    return [torch.randn(2, 2, 24, 16) for _ in range(3)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def attend(q, k, v, o, S, scale, D: tl.constexpr, BS: tl.constexpr):
    head, row = tl.program_id(0), tl.program_id(1)
    d, s = tl.arange(0, D), tl.arange(0, BS)
    base = head * S * D
    query = tl.load(q + base + row * D + d)
    keys = tl.load(k + base + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
    scores = tl.sum(keys * query[None, :], 1) * scale
    scores = tl.where(s < S, scores, -float("inf"))
    p = tl.exp(scores - tl.max(scores, 0))
    p = p / tl.sum(p, 0)
    values = tl.load(v + base + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
    tl.store(o + base + row * D + d, tl.sum(p[:, None] * values, 0))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, S, D = q.shape
        o = torch.empty_like(q)
        attend[(B * H, S)](q, k, v, o, S, D ** -0.5, D, triton.next_power_of_2(S))
        return o
