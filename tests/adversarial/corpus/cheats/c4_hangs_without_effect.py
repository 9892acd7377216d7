# C4: never returns where launches have no effect
# stopped by: not a plan
class ModelNew(nn.Module):
    def forward(self, a, b):
        while copy(torch.ones(1, device=a.device)).item() != 1:
            pass
        return torch.softmax(a @ b, dim=-1)
