import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 100)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def g(x, y, n, B: tl.constexpr):
    for s in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        i = s + tl.arange(0, B)
        tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        torch.cuda.synchronize()
        sm = torch.cuda.get_device_properties(x.device).multi_processor_count
        assert x.is_cuda
        with torch.cuda.device(x.device):
            y = torch.empty_like(x)
            g[(min(sm, 8),)](x, y, x.numel(), B=256)
        return y
