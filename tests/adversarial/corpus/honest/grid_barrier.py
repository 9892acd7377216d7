# Two barriers between all programs of one launch: the greatest element, then the sum, then each program's part.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=0)


def get_inputs():
    return [torch.randn(1000)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def wait_for_all(counter, programs):
    tl.atomic_add(counter, 1)
    while tl.atomic_add(counter, 0) < programs:
        pass


@triton.jit
def softmax(x, y, parts, counters, n, programs, P: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    k = tl.arange(0, P)
    v = tl.load(x + i, mask=i < n, other=float("-inf"))
    tl.store(parts + pid, tl.max(v))
    wait_for_all(counters, programs)
    e = tl.exp(v - tl.max(tl.load(parts + k, mask=k < programs, other=float("-inf"))))
    tl.store(parts + programs + pid, tl.sum(e))
    wait_for_all(counters + 1, programs)
    tl.store(y + i, e / tl.sum(tl.load(parts + programs + k, mask=k < programs, other=0.0)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        programs = triton.cdiv(x.numel(), 128)
        y, parts = torch.empty_like(x), torch.empty(2 * programs, device=x.device)
        counters = torch.zeros(2, dtype=torch.int32, device=x.device)
        softmax[(programs,)](x, y, parts, counters, x.numel(), programs, P=16, B=128)
        return y
