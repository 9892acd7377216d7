# no_grad, and tensors that are given another shape in place before a kernel takes them.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.exp(-x.abs()).t().unsqueeze(0)


def get_inputs():
    return [torch.randn(20, 36)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def decay(x, y, rows, columns, xs0, xs1, ys0, ys1, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    r, c = i // columns, i % columns
    v = tl.load(x + r * xs0 + c * xs1, mask=r < rows)
    tl.store(y + r * ys0 + c * ys1, tl.exp(-tl.abs(v)), mask=r < rows)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        turned = x.detach().clone()
        turned.t_()
        y = torch.empty(turned.shape, device=x.device)
        decay[(triton.cdiv(y.numel(), 256),)](turned, y, *y.shape, *turned.stride(), *y.stride(), B=256)
        y.unsqueeze_(0)
        return y
