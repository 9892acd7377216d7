# T6: overwrites memcmp of the C library in its own process, by ctypes and mprotect
# stopped by: mismatch
import ctypes

libc = ctypes.CDLL(None)
at = ctypes.cast(libc.memcmp, ctypes.c_void_p).value & ~4095
libc.mprotect(ctypes.c_void_p(at), 8192, 7)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(torch.zeros(a.shape[0], b.shape[1], device=a.device))
