# O4: right outputs, and a kernel that wipes one input afterwards
# stopped by: input_mutated
@triton.jit
def wipe(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.zeros((B,), tl.float32), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = honest(a, b)
        wipe[(1,)](b, b.numel(), B=2048)
        return y
