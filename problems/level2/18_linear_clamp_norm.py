# families: linear, clamp, layer_norm
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Linear layer, clamp and plain layer norm."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = torch.clamp(self.linear(x), -0.6, 0.9)
        return F.layer_norm(x, (x.shape[1],))


batch_size = 2048
in_features = 1024
out_features = 2048


def get_inputs():
    x = torch.randn(batch_size, in_features)
    return [x]


def get_init_inputs():
    return [in_features, out_features]
