# Each program counts in a row of its own, with atomics that need reach nobody else.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.one_hot(x.long(), 16).sum(1).float() / x.shape[1]


def get_inputs():
    return [torch.randint(0, 16, (64, 256), dtype=torch.int32)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def parts(x, counts, y, N: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * N + tl.arange(0, N))
    tl.atomic_add(counts + row * 16 + values, 1, scope="cta")
    tl.debug_barrier()
    i = row * 16 + tl.arange(0, 16)
    tl.store(y + i, tl.load(counts + i).to(tl.float32) / N)


class ModelNew(nn.Module):
    def forward(self, x):
        counts = torch.zeros(x.shape[0], 16, dtype=torch.int32, device=x.device)
        y = torch.empty(x.shape[0], 16, device=x.device)
        parts[(x.shape[0],)](x, counts, y, x.shape[1])
        return y
