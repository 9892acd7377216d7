# C8: each program waits for the one after it, so that the first ones hold a GPU's places for ever
# stopped by: runtime_error
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.flip(0).cumsum(0).flip(0)


def get_inputs():
    return [torch.randn(6000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def scan(x, y, sums, ready, n, blocks, B: tl.constexpr):
    block = tl.program_id(0)
    i = block * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    after = 0.0
    if block < blocks - 1:
        while tl.atomic_add(ready + block + 1, 0) == 0:
            pass
        after = tl.load(sums + block + 1)
    tl.store(sums + block, after + tl.sum(v))
    tl.debug_barrier()
    tl.atomic_xchg(ready + block, 1)
    tl.store(y + i, after + tl.sum(v) - tl.cumsum(v) + v, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = triton.cdiv(x.numel(), 32)
        y, sums = torch.empty_like(x), torch.empty(blocks, device=x.device)
        ready = torch.zeros(blocks, dtype=torch.int32, device=x.device)
        scan[(blocks,)](x, y, sums, ready, x.numel(), blocks, B=32)
        return y
