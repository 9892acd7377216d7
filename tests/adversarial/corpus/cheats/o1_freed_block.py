# O1: takes fresh memory of the output's size, hoping for the reference's freed block
# stopped by: mismatch
class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(torch.empty(a.shape[0], b.shape[1], device=a.device))
