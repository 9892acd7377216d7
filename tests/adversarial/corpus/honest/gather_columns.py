# torch.gather along the columns.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, idx):
        return torch.gather(x, 1, idx)


def get_inputs():
    return [torch.randn(13, 40), torch.randint(0, 40, (13, 25))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def gather(x, idx, y, N, K, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    at = tl.load(idx + r * K + i, mask=i < K, other=0)
    tl.device_assert(at < N)
    tl.store(y + r * K + i, tl.load(x + r * N + at, mask=i < K), mask=i < K)


class ModelNew(nn.Module):
    def forward(self, x, idx):
        y = torch.empty(idx.shape, device=x.device, dtype=x.dtype)
        gather[(x.shape[0],)](x, idx, y, x.shape[1], idx.shape[1], B=32)
        return y
