# families: layer_norm
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Layer norm with learned scale and shift."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return F.layer_norm(x, (x.shape[1],), self.weight, self.bias)


batch_size = 4096
features = 8192


def get_inputs():
    x = torch.randn(batch_size, features)
    return [x]


def get_init_inputs():
    return [features]
