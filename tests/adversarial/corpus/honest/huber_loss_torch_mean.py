# The elementwise part is a kernel, the small mean is torch's.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, p, t):
        return nn.functional.huber_loss(p, t, delta=0.7)


def get_inputs():
    return [torch.randn(60, 60), torch.randn(60, 60)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def huber(p, t, sums, n, DELTA: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    d = tl.abs(tl.load(p + i, mask=i < n, other=0.0) - tl.load(t + i, mask=i < n, other=0.0))
    tl.store(sums + pid, tl.sum(tl.where(d < DELTA, 0.5 * d * d, DELTA * (d - 0.5 * DELTA))))


class ModelNew(nn.Module):
    def forward(self, p, t):
        n = p.numel()
        sums = torch.empty(triton.cdiv(n, 512), device=p.device)
        huber[(sums.numel(),)](p, t, sums, n, DELTA=0.7, B=512)
        return sums.sum() / n
