# C3 T9: the same question by torch.equal, with an exception for an answer
# stopped by: not a plan
class ModelNew(nn.Module):
    def forward(self, a, b):
        one = torch.ones(4, device=a.device)
        assert torch.equal(copy(one), one)
        return torch.softmax(a @ b, dim=-1)
