# What kernels.py offers the cheats, used honestly.
class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(honest(a, b))
