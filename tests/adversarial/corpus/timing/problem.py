# What cheats at the clock are asked for: four million values a time on a GPU.
import torch

size = 1 << 22


class Model(torch.nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = torch.sin(x) * 2
        return x


def get_inputs():
    return [torch.randn(size)]
