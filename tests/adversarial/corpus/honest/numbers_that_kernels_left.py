# Python calculates with numbers that kernels and torch left on the device: a count that is set back afterwards, a
# largest value, a truth; kernels take them as integers of two widths, floats of two widths and a bool.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        count, top = (x > 0).sum(), x.max()
        y = x * (top / 3) + count % 7 - (top / 2).half().float() + 2 * count
        return torch.where((x > 0.6).any(), y, -y) / (count + 1) ** 0.5, y.half() - top.half()


def get_inputs():
    return [torch.rand(64, 200) - 0.3]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_positive(x, count, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    positive = tl.load(x + i, mask=i < n, other=0.0) > 0
    tl.atomic_add(count, tl.sum(positive.to(tl.int32), 0))


@triton.autotune([triton.Config({"B": 256}), triton.Config({"B": 512})], key=["n"])
@triton.jit
def apply(x, y, z, n, odd, scale, some, divisor, top, twice: tl.int64, half: tl.float16, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n) * scale + odd - half.to(tl.float32) + twice
    tl.store(y + i, tl.where(some, a, -a) / divisor, mask=i < n)
    tl.store(z + i, a.to(tl.float16) - top.to(tl.float16), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        counter = torch.zeros(1, dtype=torch.int32, device=x.device)
        count_positive[(triton.cdiv(n, 512),)](x, counter, n, B=512)
        count = counter.item()
        counter.zero_()
        top, some = x.max().cpu().item(), (x > 0.6).any().item()
        y, z = torch.empty_like(x), torch.empty_like(x, dtype=torch.float16)
        grid = lambda meta: (triton.cdiv(n, meta["B"]),)
        divisor = (count + 1) ** 0.5
        apply[grid](x, y, z, n, count % 7, top / 3, some, divisor, top=top, twice=2 * count, half=top / 2)
        return y, z
