# D5 C1: TorchScript does the work, where no Python sees it
# stopped by: torch_does_the_work
@torch.jit.script
def fused(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(a @ b, dim=-1)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(fused(a, b))
