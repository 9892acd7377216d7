# D1: an operator of its own (torch.library) hides torch's product behind a name and a copy kernel
# stopped by: torch_does_the_work
@torch.library.custom_op("fused::softmax_of_product", mutates_args=())
def fused(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return copy(torch.softmax(a @ b, -1))


@fused.register_fake
def _(a, b):
    return a.new_empty(a.shape[0], b.shape[1])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.ops.fused.softmax_of_product(a, b)
