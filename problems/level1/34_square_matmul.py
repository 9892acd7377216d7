# families: matmul
import torch
import torch.nn as nn


class Model(nn.Module):
    """Product of two square matrices."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return torch.matmul(a, b)


size = 2048


def get_inputs():
    a = torch.randn(size, size) / size ** 0.5
    b = torch.randn(size, size)
    return [a, b]


def get_init_inputs():
    return []
