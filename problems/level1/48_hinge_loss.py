# families: hinge_loss
import torch
import torch.nn as nn


class Model(nn.Module):
    """Mean of one minus the margin, where positive."""

    def __init__(self):
        super().__init__()

    def forward(self, score, sign):
        return torch.clamp(1 - score * sign, min=0).mean()


batch_size = 4096
features = 8192


def get_inputs():
    score = torch.randn(batch_size, features)
    sign = torch.randint(0, 2, (batch_size, features)).float() * 2 - 1
    return [score, sign]


def get_init_inputs():
    return []
