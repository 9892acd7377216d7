# families: max_pool
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Largest value of each window of four."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return F.max_pool1d(x, 4)


batch_size = 64
channels = 256
length = 8192


def get_inputs():
    x = torch.randn(batch_size, channels, length)
    return [x]


def get_init_inputs():
    return []
