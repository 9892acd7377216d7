# Online logsumexp by tl.reduce over pairs with a combine function of its own, persistent programs, properties of the
# device asked for.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, -1), x.amax(-1)


def get_inputs():
    return [torch.randn(50, 700) * 3]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def merge(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)


@triton.jit
def lse(x, y, z, M, N, B: tl.constexpr):
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        m = tl.full((B,), -1e30, tl.float32)
        s = tl.zeros((B,), tl.float32)
        for start in range(0, N, B):
            i = start + tl.arange(0, B)
            m, s = merge(m, s, tl.load(x + row * N + i, mask=i < N, other=-1e30), tl.where(i < N, 1.0, 0.0))
        top, total = tl.reduce((m, s), 0, merge)
        tl.store(y + row, top + tl.log(total))
        tl.store(z + row, top)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.is_contiguous()
        M, N = x.shape
        y, z = torch.empty(M, device=x.device), torch.empty(M, device=x.device)
        programs = min(M, torch.cuda.get_device_properties(x.device).multi_processor_count)
        with torch.cuda.device(x.device):
            lse[(programs,)](x, y, z, M, N, B=128, num_warps=4)
        return y, z
