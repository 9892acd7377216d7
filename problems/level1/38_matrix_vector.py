# families: matvec
import torch
import torch.nn as nn


class Model(nn.Module):
    """Matrix times vector."""

    def __init__(self):
        super().__init__()

    def forward(self, a, v):
        return torch.mv(a, v)


rows = 16384
inner = 8192


def get_inputs():
    a = torch.randn(rows, inner) / inner ** 0.5
    v = torch.randn(inner)
    return [a, v]


def get_init_inputs():
    return []
