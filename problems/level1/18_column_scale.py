# families: col_mul
import torch
import torch.nn as nn


class Model(nn.Module):
    """Scales each row by a number of its own."""

    def __init__(self):
        super().__init__()

    def forward(self, x, scale):
        return x * scale


batch_size = 4096
features = 8192


def get_inputs():
    x = torch.randn(batch_size, features)
    scale = torch.randn(batch_size, 1)
    return [x, scale]


def get_init_inputs():
    return []
