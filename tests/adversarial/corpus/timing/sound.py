# What kernels.py offers, used honestly: what the times of the others are held against.
class ModelNew(nn.Module):
    def forward(self, x):
        return work(x)
