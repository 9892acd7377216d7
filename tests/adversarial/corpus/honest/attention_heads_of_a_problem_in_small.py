# A head's width is tl.dot's K: 32 at the problem's own sizes, less than tl.dot takes where these are halved.
import torch
import torch.nn as nn
import torch.nn.functional as F

width, heads, tokens, batch = 256, 8, 512, 4

class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, q, k, v):
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return (F.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)


def get_inputs():
    return [torch.randn(batch, tokens, width) for _ in range(3)]


def get_init_inputs():
    return [heads]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def head_attention(q_ptr, k_ptr, v_ptr, y_ptr, T, W, scale, D: tl.constexpr, BT: tl.constexpr):
    rows, d = tl.program_id(0) * BT + tl.arange(0, BT), tl.arange(0, D)
    start = tl.program_id(2) * T * W + tl.program_id(1) * D
    at = start + rows[:, None] * W + d[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < T, other=0.0)
    largest = tl.full((BT,), float("-inf"), tl.float32)
    total = tl.zeros((BT,), tl.float32)
    acc = tl.zeros((BT, D), tl.float32)
    for first in range(0, T, BT):
        keys = first + tl.arange(0, BT)
        k = tl.load(k_ptr + start + keys[None, :] * W + d[:, None], mask=keys[None, :] < T, other=0.0)
        v = tl.load(v_ptr + start + keys[:, None] * W + d[None, :], mask=keys[:, None] < T, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * scale
        scores = tl.where(keys[None, :] < T, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp(scores - larger[:, None])
        shrunk = tl.exp(largest - larger)
        total = total * shrunk + tl.sum(p, 1)
        acc = acc * shrunk[:, None] + tl.dot(p, v, input_precision="ieee")
        largest = larger
    tl.store(y_ptr + at, acc / total[:, None], mask=rows[:, None] < T)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, q, k, v):
        batch, tokens, width = q.shape
        head = width // self.heads
        y = torch.empty_like(q)
        grid = (triton.cdiv(tokens, 32), self.heads, batch)
        head_attention[grid](q, k, v, y, tokens, width, head**-0.5, D=head, BT=32)
        return y
