# families: avg_pool
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Mean of each two by two window."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return F.avg_pool2d(x, 2)


batch_size = 32
channels = 64
height = 128
width = 128


def get_inputs():
    x = torch.randn(batch_size, channels, height, width)
    return [x]


def get_init_inputs():
    return []
