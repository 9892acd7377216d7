import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.sin(x) + torch.cos(y)


def get_inputs():
    return [torch.randn(100, 37), torch.randn(100, 37)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def one(x, o, n, S: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(o + i, tl.sin(v) if S else tl.cos(v), mask=i < n)

@triton.jit
def add(a, b, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(a + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream(priority=-1)
        self.done = torch.cuda.Event()
    def forward(self, x, y):
        a, b = torch.empty_like(x), torch.empty_like(y)
        n = x.numel()
        g = (triton.cdiv(n, 512),)
        main = torch.cuda.current_stream(x.device)
        self.side.wait_stream(main)
        one[g](x, a, n, True, B=512)
        with torch.cuda.stream(self.side):
            y.record_stream(self.side)
            one[g](y, b, n, False, B=512)
            self.done.record(self.side)
        b.record_stream(main)
        main.wait_event(self.done)
        add[g](a, b, n, B=512)
        return a
