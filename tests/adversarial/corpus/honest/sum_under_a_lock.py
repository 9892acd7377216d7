# Programs add to one row each in its turn, under a lock.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=0)


def get_inputs():
    return [torch.randn(60, 48)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_rows(x, out, lock, rows, n, R: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    i = tl.arange(0, B)
    part = tl.sum(tl.load(x + r[:, None] * n + i, mask=(r[:, None] < rows) & (i < n), other=0.0), axis=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i, mask=i < n) + part, mask=i < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        out, lock = torch.zeros(x.shape[1], device=x.device), torch.zeros(1, dtype=torch.int32, device=x.device)
        add_rows[(triton.cdiv(x.shape[0], 4),)](x, out, lock, x.shape[0], x.shape[1], R=4, B=64)
        return out
