# What the cheats are asked for, where a file has no problem of its own.
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b, dim=-1)


def get_inputs():
    return [torch.randn(32, 48), torch.randn(48, 40)]
