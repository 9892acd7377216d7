# families: matmul, transpose
import torch
import torch.nn as nn


class Model(nn.Module):
    """Product with a transposed second matrix."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return a @ b.t()


rows = 1536
inner = 2048
columns = 3072


def get_inputs():
    a = torch.randn(rows, inner) / inner ** 0.5
    b = torch.randn(columns, inner)
    return [a, b]


def get_init_inputs():
    return []
