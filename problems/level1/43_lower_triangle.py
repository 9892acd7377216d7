# families: tril
import torch
import torch.nn as nn


class Model(nn.Module):
    """Keeps the lower triangle of each matrix."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.tril(x)


batch_size = 16
size = 1024


def get_inputs():
    x = torch.randn(batch_size, size, size)
    return [x]


def get_init_inputs():
    return []
