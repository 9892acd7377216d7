# Positions as int64 input, sinusoidal table made in the kernel.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, p):
        d = torch.arange(0, 64, 2, device=p.device).float()
        a = p[:, None].float() / 10000 ** (d / 64)
        return torch.cat([a.sin(), a.cos()], 1)


def get_inputs():
    return [torch.randint(0, 512, (32,))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def table(p, y, D: tl.constexpr):
    r, d = tl.program_id(0), tl.arange(0, D // 2)
    a = tl.load(p + r).to(tl.float32) * tl.exp2(-d.to(tl.float32) * 2 / D * 13.287712379549449)
    tl.store(y + r * D + d, tl.sin(a))
    tl.store(y + r * D + D // 2 + d, tl.cos(a))


class ModelNew(nn.Module):
    def forward(self, p):
        y = torch.empty(p.shape[0], 64, device=p.device)
        table[(p.shape[0],)](p, y, 64)
        return y
