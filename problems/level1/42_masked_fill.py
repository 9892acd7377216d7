# families: where
import torch
import torch.nn as nn


class Model(nn.Module):
    """Replaces what a mask marks."""

    def __init__(self):
        super().__init__()

    def forward(self, x, mask):
        return x.masked_fill(mask, -1.5)


batch_size = 4096
features = 8192


def get_inputs():
    x = torch.randn(batch_size, features)
    mask = torch.rand(batch_size, features) < 0.3
    return [x, mask]


def get_init_inputs():
    return []
