# families: matmul
import torch
import torch.nn as nn


class Model(nn.Module):
    """Product of a tall matrix and a wide one, with a short inner side."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return a @ b


rows = 16384
inner = 48
columns = 4096


def get_inputs():
    a = torch.randn(rows, inner) / inner ** 0.5
    b = torch.randn(inner, columns)
    return [a, b]


def get_init_inputs():
    return []
