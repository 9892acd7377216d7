# O9: ends its process with success
# stopped by: crashed
import os


class ModelNew(nn.Module):
    def forward(self, a, b):
        copy(a)
        os._exit(0)
