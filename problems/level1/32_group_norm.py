# families: group_norm
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Group norm of images."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        return F.group_norm(x, self.groups)


batch_size = 16
channels = 64
groups = 8
height = 64
width = 64


def get_inputs():
    x = torch.randn(batch_size, channels, height, width)
    return [x]


def get_init_inputs():
    return [groups]
