# families: channel_mul
import torch
import torch.nn as nn


class Model(nn.Module):
    """Scales the channels of images."""

    def __init__(self):
        super().__init__()

    def forward(self, x, scale):
        return x * scale[None, :, None, None]


batch_size = 32
channels = 128
height = 64
width = 96


def get_inputs():
    x = torch.randn(batch_size, channels, height, width)
    scale = torch.randn(channels)
    return [x, scale]


def get_init_inputs():
    return []
