# One program sums what is small; what many programs leave is summed by torch, at the problem's own sizes alone.
import torch
import torch.nn as nn

batch = 2048
width = 2048


class Model(nn.Module):
    def forward(self, x):
        return (x * x).sum()


def get_inputs():
    return [torch.rand(batch, width)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squares(x, sums, n, share, B: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for k in range(0, share, B):
        i = pid * share + k + tl.arange(0, B)
        v = tl.load(x + i, mask=(i < n) & (k + tl.arange(0, B) < share), other=0.0)
        total += v * v
    tl.store(sums + pid, tl.sum(total))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        programs = 1 if n <= 1 << 20 else 256
        sums = torch.empty(programs, device=x.device)
        squares[(programs,)](x, sums, n, triton.cdiv(n, programs), B=1024)
        return sums[0] if programs == 1 else sums.sum()
