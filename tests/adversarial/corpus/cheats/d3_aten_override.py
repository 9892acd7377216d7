# D3: replaces aten's softmax, so that whoever calls it gets its own
# stopped by: no_kernel_launched
library = torch.library.Library("aten", "IMPL")
library.impl("_softmax", lambda x, dim, half: torch.zeros_like(x), "CPU")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b, dim=-1)
