# The batch norm's scale is folded into the filter, once, in the constructor.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.bn = nn.BatchNorm2d(8)
        self.eval()

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


def get_inputs():
    return [torch.randn(2, 3, 9, 10)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def pointwise(x, w, b, y, HW, CI: tl.constexpr, CO: tl.constexpr, BC: tl.constexpr, BS: tl.constexpr):
    n = tl.program_id(0)
    s = tl.program_id(1) * BS + tl.arange(0, BS)
    c = tl.arange(0, BC)
    acc = tl.zeros((BC, BS), tl.float32)
    for ci in tl.static_range(CI):
        acc += tl.load(w + c * CI + ci, mask=c < CO, other=0.0)[:, None] \
            * tl.load(x + (n * CI + ci) * HW + s, mask=s < HW, other=0.0)[None, :]
    acc = tl.maximum(acc + tl.load(b + c, mask=c < CO, other=0.0)[:, None], 0.0)
    tl.store(y + (n * CO + c[:, None]) * HW + s[None, :], acc, mask=(c[:, None] < CO) & (s[None, :] < HW))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        conv, bn = nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)
        with torch.no_grad():
            scale = bn.weight / torch.sqrt(bn.running_var + bn.eps)
            self.register_buffer("w", (conv.weight.flatten(1) * scale[:, None]).contiguous())
            self.register_buffer("b", (conv.bias - bn.running_mean) * scale + bn.bias)

    def forward(self, x):
        N, _, H, W = x.shape
        y = torch.empty(N, 8, H, W, device=x.device)
        pointwise[(N, triton.cdiv(H * W, 64))](x, self.w, self.b, y, H * W, 3, 8, 8, 64)
        return y
