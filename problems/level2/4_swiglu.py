# families: silu, mul
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Gated unit of two halves."""

    def __init__(self):
        super().__init__()

    def forward(self, gate, up):
        return F.silu(gate) * up


batch_size = 4096
features = 5632


def get_inputs():
    gate = torch.randn(batch_size, features)
    up = torch.randn(batch_size, features)
    return [gate, up]


def get_init_inputs():
    return []
