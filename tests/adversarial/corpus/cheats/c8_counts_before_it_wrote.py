# C8: the last program adds up parts that the others may not have written yet: they count first
# stopped by: runtime_error
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return (x + 1).abs().sum().reshape(1)


def get_inputs():
    return [torch.randn(1000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def total(x, parts, counter, out, n, programs, P: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    done = tl.atomic_add(counter, 1)
    tl.store(parts + pid, tl.sum(tl.where(i < n, tl.abs(tl.load(x + i, mask=i < n, other=0.0) + 1), 0.0)))
    if done == programs - 1:
        k = tl.arange(0, P)
        tl.store(out, tl.sum(tl.load(parts + k, mask=k < programs, other=0.0)))


class ModelNew(nn.Module):
    def forward(self, x):
        programs = triton.cdiv(x.numel(), 128)
        parts = torch.zeros(programs, device=x.device)
        counter = torch.zeros(1, dtype=torch.int32, device=x.device)
        out = torch.empty(1, device=x.device)
        total[(programs,)](x, parts, counter, out, x.numel(), programs, P=16, B=128)
        return out
