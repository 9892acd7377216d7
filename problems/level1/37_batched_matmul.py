# families: bmm
import torch
import torch.nn as nn


class Model(nn.Module):
    """A matrix product for every entry of a batch."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return torch.bmm(a, b)


batch_size = 64
rows = 384
inner = 512
columns = 256


def get_inputs():
    a = torch.randn(batch_size, rows, inner) / inner ** 0.5
    b = torch.randn(batch_size, inner, columns)
    return [a, b]


def get_init_inputs():
    return []
