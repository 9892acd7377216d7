# How many rows each expert has is counted by torch.bincount, whose minlength says how many counts there are.
# on a gpu: torch_does_the_work, since its calls on few numbers take longer there than the kernels do
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, x, logits):
        expert = logits.argmax(1)
        counts = torch.bincount(expert, minlength=8)
        shared = self.scale[expert] / counts[expert]
        return torch.sigmoid(x) * shared[:, None], counts


def get_inputs():
    return [torch.randn(512, 256), torch.randn(512, 8)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shared_sigmoid(x, expert, counts, scale, y, N: tl.constexpr):
    row = tl.program_id(0)
    e = tl.load(expert + row)
    shared = tl.load(scale + e) / tl.load(counts + e).to(tl.float32)
    i = row * N + tl.arange(0, N)
    tl.store(y + i, tl.sigmoid(tl.load(x + i)) * shared)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, x, logits):
        expert = logits.argmax(1)
        counts = torch.bincount(expert, minlength=8)
        y = torch.empty_like(x)
        shared_sigmoid[(x.shape[0],)](x, expert, counts, self.scale, y, x.shape[1])
        return y, counts
