# families: log_softmax, gather, row_mean
import torch
import torch.nn as nn


class Model(nn.Module):
    """Cross entropy against smoothed labels, for each row."""

    def __init__(self):
        super().__init__()

    def forward(self, logits, target):
        log_p = torch.log_softmax(logits, dim=1)
        hit = log_p.gather(1, target[:, None]).squeeze(1)
        return -(0.9 * hit + 0.1 * log_p.mean(dim=1))


batch_size = 8192
classes = 4096


def get_inputs():
    logits = torch.randn(batch_size, classes)
    target = torch.randint(0, classes, (batch_size,))
    return [logits, target]


def get_init_inputs():
    return []
