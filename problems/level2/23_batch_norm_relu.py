# families: batch_norm, relu
import torch
import torch.nn as nn


class Model(nn.Module):
    """Batch norm at inference, then relu."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels).eval()
        self.norm.running_mean.copy_(torch.randn(channels) * 0.1)
        self.norm.running_var.copy_(torch.rand(channels) + 0.5)

    def forward(self, x):
        return torch.relu(self.norm(x))


batch_size = 64
channels = 128
height = 56
width = 56


def get_inputs():
    x = torch.randn(batch_size, channels, height, width)
    return [x]


def get_init_inputs():
    return [channels]
