# C2 D2: chooses torch's result wherever it is not NaN, the kernel's else
# stopped by: torch_does_the_work
class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.softmax(a @ b, dim=-1)
        return torch.where(out == out, out, copy(out))
