# A kernel says to which of eight experts each row goes, torch.bincount how many each has.
# on a gpu: torch_does_the_work, since its calls on few numbers take longer there than the kernels do
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, logits):
        expert = logits.argmax(1)
        counts = torch.bincount(expert, minlength=8)
        return torch.sigmoid(x) / counts[expert][:, None]


def get_inputs():
    return [torch.randn(512, 256), torch.randn(512, 8)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def choose(logits, expert, E: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(expert + row, tl.argmax(tl.load(logits + row[:, None] * E + tl.arange(0, E)[None, :]), 1))


@triton.jit
def shared_sigmoid(x, expert, counts, y, N: tl.constexpr):
    row = tl.program_id(0)
    shared = tl.load(counts + tl.load(expert + row)).to(tl.float32)
    i = row * N + tl.arange(0, N)
    tl.store(y + i, tl.sigmoid(tl.load(x + i)) / shared)


class ModelNew(nn.Module):
    def forward(self, x, logits):
        expert = torch.empty(x.shape[0], dtype=torch.int32, device=x.device)
        choose[(x.shape[0] // 64,)](logits, expert, 8, 64)
        counts = torch.bincount(expert, minlength=8)
        y = torch.empty_like(x)
        shared_sigmoid[(x.shape[0],)](x, expert, counts, y, x.shape[1])
        return y
