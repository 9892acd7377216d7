# families: sub, square, row_sum, exp
import torch
import torch.nn as nn


class Model(nn.Module):
    """Gaussian kernel of paired rows."""

    def __init__(self):
        super().__init__()

    def forward(self, x, y):
        distance = torch.sum((x - y) ** 2, dim=1) / x.shape[1]
        return torch.exp(-0.5 * distance)


batch_size = 8192
features = 2048


def get_inputs():
    x = torch.randn(batch_size, features)
    y = torch.randn(batch_size, features)
    return [x, y]


def get_init_inputs():
    return []
