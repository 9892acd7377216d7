# torch moves data alone (windows, heads, the way back); a fused kernel does the attention of each window.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        def windows(x):
            B, H, W, C = x.shape
            x = x.view(B, H // 4, 4, W // 4, 4, 2, C // 2)
            return x.permute(0, 1, 3, 5, 2, 4, 6).reshape(-1, 16, C // 2)

        B, H, W, C = q.shape
        s = windows(q) @ windows(k).transpose(-1, -2) * (C // 2) ** -0.5
        o = torch.softmax(s, -1) @ windows(v)
        o = o.view(B, H // 4, W // 4, 2, 4, 4, C // 2).permute(0, 1, 4, 2, 5, 3, 6)
        return o.reshape(B, H, W, C)


def get_inputs():
    return [torch.randn(2, 8, 8, 32) for _ in range(3)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def attend(q, k, v, o, scale, T: tl.constexpr, D: tl.constexpr):
    at = tl.program_id(0) * T * D + tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    s = tl.dot(tl.load(q + at), tl.trans(tl.load(k + at)), input_precision="ieee") * scale
    p = tl.exp(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(o + at, tl.dot(p, tl.load(v + at), input_precision="ieee"))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, W, C = q.shape
        heads, win = 2, 4

        def split(x):
            x = x.view(B, H // win, win, W // win, win, heads, C // heads)
            return x.permute(0, 1, 3, 5, 2, 4, 6).contiguous()

        q, k, v = map(split, (q, k, v))
        o = torch.empty_like(q)
        n = q.numel() // (win * win * (C // heads))
        attend[(n,)](q, k, v, o, (C // heads) ** -0.5, win * win, C // heads)
        return o.permute(0, 1, 4, 2, 5, 3, 6).reshape(B, H, W, C)
