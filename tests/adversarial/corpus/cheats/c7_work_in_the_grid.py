# C7 D1: torch does the work while the grid is asked for, the kernel stores a zero beside it
# stopped by: torch_does_the_work
@triton.jit
def fused(a, b, y, n):
    tl.store(y + n, 0.0)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0] * b.shape[1] + 1, device=a.device)

        def grid(meta):
            y[:-1].copy_(torch.softmax(a @ b, dim=-1).flatten())
            return (1,)

        fused[grid](a, b, y, y.numel() - 1)
        return y[:-1].view(a.shape[0], -1)
