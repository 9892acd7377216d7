import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = spectral_norm(nn.Linear(32, 16))
    def forward(self, x):
        return F.leaky_relu(self.fc(x), 0.1)


def get_inputs():
    return [torch.randn(20, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from torch.nn.utils import spectral_norm
@triton.jit
def power(w, u, v, s, O: tl.constexpr, I: tl.constexpr):
    o, i = tl.arange(0, O), tl.arange(0, I)
    ww = tl.load(w + o[:, None] * I + i[None, :])
    uu = tl.load(u + o)
    vv = tl.sum(ww * uu[:, None], 0)
    vv = vv / tl.maximum(tl.sqrt(tl.sum(vv * vv)), 1e-12)
    t = tl.sum(ww * vv[None, :], 1)
    uu = t / tl.maximum(tl.sqrt(tl.sum(t * t)), 1e-12)
    tl.store(u + o, uu)
    tl.store(v + i, vv)
    tl.store(s, tl.sum(uu * t))

@triton.jit
def linear(x, w, b, s, y, O: tl.constexpr, I: tl.constexpr):
    r = tl.program_id(0)
    o, i = tl.arange(0, O), tl.arange(0, I)
    a = tl.sum(tl.load(w + o[:, None] * I + i[None, :]) * tl.load(x + r * I + i)[None, :], 1) / tl.load(s) + tl.load(b + o)
    tl.store(y + r * O + o, tl.where(a > 0, a, 0.1 * a))

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = spectral_norm(nn.Linear(32, 16))
    def forward(self, x):
        s = torch.empty(1, device=x.device)
        y = torch.empty(x.shape[0], 16, device=x.device)
        power[(1,)](self.fc.weight_orig, self.fc.weight_u, self.fc.weight_v, s, 16, 32)
        linear[(x.shape[0],)](x, self.fc.weight_orig, self.fc.bias, s, y, 16, 32)
        return y
