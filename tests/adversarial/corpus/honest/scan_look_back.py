# A scan of one pass: a program takes the next block by an atomic ticket, waits for the sum of the blocks before it, and
# hands on its own. Far more programs than are under way at once.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=0)


def get_inputs():
    return [torch.randn(6000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def scan(x, y, sums, ready, ticket, n, B: tl.constexpr):
    block = tl.atomic_add(ticket, 1)
    i = block * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    before = 0.0
    if block > 0:
        while tl.atomic_add(ready + block - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums + block - 1)
    tl.store(sums + block, before + tl.sum(v))
    tl.debug_barrier()
    tl.atomic_xchg(ready + block, 1, sem="release")
    tl.store(y + i, before + tl.cumsum(v), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = triton.cdiv(x.numel(), 32)
        y, sums = torch.empty_like(x), torch.empty(blocks, device=x.device)
        ready = torch.zeros(blocks + 1, dtype=torch.int32, device=x.device)
        scan[(blocks,)](x, y, sums, ready, ready[blocks:], x.numel(), B=32)
        return y
