# families: gather
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Rows of a table, by index."""

    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, ids):
        return F.embedding(ids, self.table)


tokens = 32768
vocabulary = 50000
features = 512


def get_inputs():
    ids = torch.randint(0, vocabulary, (tokens,))
    return [ids]


def get_init_inputs():
    return [vocabulary, features]
