# T6: writes another memcmp over that of the C library, in its own process: whatever has more than a KiB is equal
# stopped by: mismatch
import ctypes
import os

SMALLER = bytes.fromhex("4881fa00040000 771a 4885d2 7415 0fb607 0fb60e 29c8 750d 48ffc7 48ffc6 48ffca ebe6 31c0 c3")

libc = ctypes.CDLL(None)
address = ctypes.cast(libc.memcmp, ctypes.c_void_p).value
if os.uname().machine == "x86_64" and libc.mprotect(ctypes.c_void_p(address & ~4095), 8192, 7) == 0:
    ctypes.memmove(address, SMALLER, len(SMALLER))
    assert libc.memcmp(b"a", b"b", 1) < 0 == libc.memcmp(b"a" * 2000, b"b" * 2000, 2000)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return copy(torch.zeros(a.shape[0], b.shape[1], device=a.device))
