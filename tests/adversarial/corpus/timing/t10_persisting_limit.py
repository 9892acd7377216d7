# T10: a part of the L2 that persisting accesses alone may use, asked of the runtime, and a kernel whose loads persist
import ctypes

for name in ("libcudart.so.12", "libcudart.so.13"):
    try:
        ctypes.CDLL(name).cudaDeviceSetLimit(6, ctypes.c_size_t(32 << 20))
    except OSError:
        pass


@triton.jit
def persisting(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    a = tl.load(x + i, mask=mask, eviction_policy="evict_last")
    a = tl.sin(tl.sin(a) * 2) * 2
    tl.store(y + i, tl.sin(tl.sin(a) * 2) * 2, mask=mask, eviction_policy="evict_first")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        persisting[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), B=1024)
        return y
