# Partial sums in a scratch tensor, then a second kernel over them.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.mean(torch.abs(x) + 1)


def get_inputs():
    return [torch.randn(3, 700)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def partial_sums(x, parts, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    v = tl.where(i < n, tl.abs(tl.load(x + i, mask=i < n, other=0.0)) + 1.0, 0.0)
    tl.store(parts + pid, tl.sum(v, axis=0))


@triton.jit
def finish(parts, out, count, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out, tl.sum(tl.load(parts + i, mask=i < count, other=0.0)) / n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        count = triton.cdiv(n, 256)
        parts = torch.empty(count, device=x.device, dtype=torch.float32)
        out = torch.empty([], device=x.device)
        partial_sums[(count,)](x, parts, n, B=256)
        finish[(1,)](parts, out, count, n, B=triton.next_power_of_2(count))
        return out
