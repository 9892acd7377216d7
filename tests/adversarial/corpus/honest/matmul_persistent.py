# As many programs as the device has multiprocessors, each walks over tiles.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(70, 64), torch.randn(64, 70)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, NUM_SMS: tl.constexpr):
    start = tl.program_id(0)
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for tile in tl.range(start, tiles, NUM_SMS, flatten=True):
        m = (tile // tiles_n) * BM + tl.arange(0, BM)
        n = (tile % tiles_n) * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k0 in range(0, K, BK):
            k = k0 + tl.arange(0, BK)
            x = tl.load(a + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
            y = tl.load(b + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
            acc = tl.dot(x, y, acc, input_precision="ieee")
        tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sms = torch.cuda.get_device_properties("cuda").multi_processor_count

    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        tiles = triton.cdiv(M, 16) * triton.cdiv(N, 16)
        persistent[(min(self.sms // 8, tiles),)](a, b, c, M, N, K, BM=16, BN=16, BK=32, NUM_SMS=min(self.sms // 8, tiles))
        return c
