# triton.heuristics chooses the block and whether a mask is needed.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(x)


def get_inputs():
    return [torch.randn(15, 77)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.heuristics({
    "BLOCK": lambda args: min(512, triton.next_power_of_2(args["n"])),
    "EVEN": lambda args: args["n"] % 512 == 0,
})
@triton.jit
def softplus(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        v = tl.load(x + i)
    else:
        v = tl.load(x + i, mask=i < n, other=0.0)
    out = tl.where(v > 20, v, tl.log(1 + tl.exp(v)))
    if EVEN:
        tl.store(y + i, out)
    else:
        tl.store(y + i, out, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softplus[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
