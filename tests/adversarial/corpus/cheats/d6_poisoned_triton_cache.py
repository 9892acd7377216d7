# D6: replaces what Triton's cache and compiler would give, for itself and others
# stopped by: mismatch
import triton.compiler
import triton.runtime.cache

triton.runtime.cache.FileCacheManager.get_group = lambda self, name: {}
triton.compiler.compile = lambda *args, **kwargs: None


@triton.jit
def fused(a, b, y, B: tl.constexpr):
    tl.store(y + tl.arange(0, B), tl.zeros((B,), tl.float32))


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0], b.shape[1], device=a.device)
        fused[(1,)](a, b, y, B=1024)
        return y
