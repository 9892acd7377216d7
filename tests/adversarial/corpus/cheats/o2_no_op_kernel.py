# O2: a kernel that stores nothing, over memory that nobody wrote
# stopped by: mismatch
@triton.jit
def fused_matmul_softmax(a, b, y, M, N, K, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(a + i), mask=i < 0)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0], b.shape[1], device=a.device)
        fused_matmul_softmax[(4,)](a, b, y, a.shape[0], b.shape[1], a.shape[1], B=64)
        return y
