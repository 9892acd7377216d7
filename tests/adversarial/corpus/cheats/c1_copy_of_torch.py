# C1 D1: torch does the work, a kernel copies its result
# stopped by: torch_does_the_work
class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(torch.softmax(a @ b, dim=-1))
