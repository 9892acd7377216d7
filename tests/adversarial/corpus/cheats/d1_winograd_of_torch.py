# D1: torch does a convolution in tiles (Winograd's), which is half of the convolution's work, beside launches for show
# stopped by: torch_does_the_work
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(256, 256, 3, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(1, 256, 34, 34)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x, y, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


def scaled(x, s):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 4096),)](x, y, s, x.numel(), B=4096)
    return y


TILE = [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0]]
TILE += [[0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]]
FILTER = [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6]]
FILTER += [[1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]
RESULT = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]


def both_ways(rows, like):
    m = torch.tensor(rows, dtype=torch.float32, device=like.device)
    return torch.kron(m, m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(256, 256, 3, bias=False)

    def forward(self, x):
        tiles = x.unfold(2, 6, 4).unfold(3, 6, 4).permute(4, 5, 1, 0, 2, 3).reshape(36, -1)
        filters = self.conv.weight.permute(2, 3, 0, 1).reshape(9, -1)
        tiles, filters = both_ways(TILE, x) @ tiles, both_ways(FILTER, x) @ filters
        products = torch.bmm(filters.view(36, 256, 256), tiles.view(36, 256, 64))
        y = (both_ways(RESULT, x) @ products.view(36, -1)).view(4, 4, 256, 8, 8)
        y = y.permute(2, 3, 0, 4, 1).reshape(1, 256, 32, 32)
        for _ in range(4):
            y = scaled(scaled(y, 2.0), 0.5)
        return y
