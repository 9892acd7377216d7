# families: outer_add
import torch
import torch.nn as nn


class Model(nn.Module):
    """All sums of an element of one vector and an element of another."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return a[:, None] + b[None, :]


rows = 8192
columns = 6144


def get_inputs():
    a = torch.randn(rows)
    b = torch.randn(columns)
    return [a, b]


def get_init_inputs():
    return []
