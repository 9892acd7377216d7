# families: gelu
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Gaussian error linear unit, exact form."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return F.gelu(x)


batch_size = 4096
features = 8192


def get_inputs():
    x = torch.randn(batch_size, features)
    return [x]


def get_init_inputs():
    return []
