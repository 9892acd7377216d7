# The reference's own submodule holds the weights; mean and variance in one kernel.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(7, 9, 96)]


def get_init_inputs():
    return [96]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def layer_norm(x, w, b, y, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    v = tl.load(x + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / N
    centred = tl.where(mask, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    out = centred * rstd * tl.load(w + cols, mask=mask) + tl.load(b + cols, mask=mask)
    tl.store(y + row * N + cols, out, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        y = torch.empty_like(x)
        rows = x.reshape(-1, x.shape[-1])
        layer_norm[(rows.shape[0],)](rows, self.norm.weight, self.norm.bias, y, x.shape[-1], self.norm.eps,
                                     BLOCK=triton.next_power_of_2(x.shape[-1]))
        return y
