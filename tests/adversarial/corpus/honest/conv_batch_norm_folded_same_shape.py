# The usual folding: filter and bias keep the shapes that the convolution has.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.eval()

    def forward(self, x):
        return self.bn(self.conv(x))


def get_inputs():
    return [torch.randn(2, 4, 8, 8)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def conv3x3(x, w, b, y, H, W, CI: tl.constexpr, CO: tl.constexpr, BS: tl.constexpr):
    n, co = tl.program_id(0), tl.program_id(1)
    s = tl.program_id(2) * BS + tl.arange(0, BS)
    h, v = s // W, s % W
    acc = tl.zeros((BS,), tl.float32) + tl.load(b + co)
    for ci in range(CI):
        for r in range(3):
            for t in range(3):
                hh, vv = h + r - 1, v + t - 1
                ok = (hh >= 0) & (hh < H) & (vv >= 0) & (vv < W) & (s < H * W)
                acc += tl.load(x + (n * CI + ci) * H * W + hh * W + vv, mask=ok, other=0.0) \
                    * tl.load(w + ((co * CI + ci) * 3 + r) * 3 + t)
    tl.store(y + (n * CO + co) * H * W + s, acc, mask=s < H * W)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        conv, bn = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)
        scale = bn.weight / torch.sqrt(bn.running_var + bn.eps)
        self.weight = nn.Parameter((conv.weight * scale.view(-1, 1, 1, 1)).detach(), requires_grad=False)
        self.bias = nn.Parameter(((conv.bias - bn.running_mean) * scale + bn.bias).detach(), requires_grad=False)

    def forward(self, x):
        N, C, H, W = x.shape
        y = torch.empty((N, 8, H, W), device=x.device, dtype=x.dtype)
        conv3x3[(N, 8, triton.cdiv(H * W, 32))](x, self.weight, self.bias, y, H, W, 4, 8, 32)
        return y
