# D1: torch.func.vmap of torch's product over the rows
# stopped by: torch_does_the_work
class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.func.vmap(lambda r: torch.softmax(r @ b, -1))(a)
        return copy(y)
