# C2 D1: a kernel's output, times zero, added to torch's result
# stopped by: torch_does_the_work
class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.softmax(a @ b, dim=-1)
        return out + 0 * copy(out[0, :1])
