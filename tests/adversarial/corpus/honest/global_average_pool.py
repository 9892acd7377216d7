# Average over height and width, keepdim; the planes are rows of a view.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, 1)


def get_inputs():
    return [torch.randn(4, 5, 13, 11)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def plane_mean(x, y, planes, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for at in range(0, n, COLS):
        c = at + tl.arange(0, COLS)[None, :]
        acc += tl.load(x + r * n + c, (r < planes) & (c < n), 0.0)
    mean = tl.sum(acc, axis=1, keep_dims=True) / n
    tl.store(y + r, mean, r < planes)


class ModelNew(nn.Module):
    def forward(self, x):
        flat = x.view(-1, x.shape[-2] * x.shape[-1])
        y = flat.new_empty(flat.shape[0], 1)
        plane_mean[(triton.cdiv(flat.shape[0], 4),)](flat, y, flat.shape[0], flat.shape[1], ROWS=4, COLS=32)
        return y.view(x.shape[0], x.shape[1], 1, 1)
