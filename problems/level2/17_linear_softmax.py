# families: linear, mul_scalar, softmax
import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear layer and softmax at a temperature."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return torch.softmax(self.linear(x) * 2.5, dim=1)


batch_size = 2048
in_features = 1024
out_features = 2048


def get_inputs():
    x = torch.randn(batch_size, in_features)
    return [x]


def get_init_inputs():
    return [in_features, out_features]
