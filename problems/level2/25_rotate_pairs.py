# families: mul, sub, add
import torch
import torch.nn as nn


class Model(nn.Module):
    """Rotary embedding of interleaved pairs."""

    def __init__(self):
        super().__init__()

    def forward(self, x, angle):
        c, s = torch.cos(angle), torch.sin(angle)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


batch_size = 32
length = 2048
width = 128


def get_inputs():
    x = torch.randn(batch_size, length, width)
    angle = torch.rand(length, width // 2) * 6.28
    return [x, angle]


def get_init_inputs():
    return []
