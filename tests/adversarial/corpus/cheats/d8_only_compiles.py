# D8: whatever is asked, one and the same kernel that compiles
# stopped by: mismatch
class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(a)
