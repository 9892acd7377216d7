# Sampling, cubic upsampling and unpooling are torch's; what is done with each number is a kernel's.
# on a gpu: torch_does_the_work, since its calls on few numbers take longer there than the kernels do
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, grid):
        y = F.grid_sample(x, grid, align_corners=False)
        z = F.interpolate(y, scale_factor=2, mode="bicubic")
        most, places = F.max_pool2d(z, 2, return_indices=True)
        u = F.max_unpool2d(most, places, 2)
        return torch.tanh(u + z) * torch.sigmoid(z) + F.softplus(u)


def get_inputs():
    return [torch.randn(2, 8, 32, 32), torch.rand(2, 32, 32, 2) * 2 - 1]


# ---- candidate ----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def gated(u, z, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(u + i), tl.load(z + i)
    tanh = 2 * tl.sigmoid(2 * (a + b)) - 1
    tl.store(out + i, tanh * tl.sigmoid(b) + tl.where(a > 20, a, tl.log(1 + tl.exp(a))))


class ModelNew(nn.Module):
    def forward(self, x, grid):
        y = F.grid_sample(x, grid, align_corners=False)
        z = F.interpolate(y, scale_factor=2, mode="bicubic")
        most, places = F.max_pool2d(z, 2, return_indices=True)
        u = F.max_unpool2d(most, places, 2)
        out = torch.empty_like(z)
        gated[(z.numel() // 1024,)](u, z, out, 1024)
        return out
