# families: mul, row_sum, row_norm
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Cosine of the angle between paired rows."""

    def __init__(self):
        super().__init__()

    def forward(self, x, y):
        return F.cosine_similarity(x, y, dim=1)


batch_size = 4096
features = 8192


def get_inputs():
    x = torch.randn(batch_size, features)
    y = torch.randn(batch_size, features)
    return [x, y]


def get_init_inputs():
    return []
