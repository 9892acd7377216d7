# The last state beside all of them, as of a recurrence, is a view of these: a thirty-third of what is written.
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        states = torch.cumsum(torch.relu(x), 0)
        return states, states[-1].clone()


def get_inputs():
    return [torch.randn(32, 200)]

# ---- candidate ----
import torch
import triton
import triton.language as tl


@triton.jit
def summed(x, y, steps, width, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    state = tl.zeros((B,), tl.float32)
    for step in range(steps):
        state += tl.maximum(tl.load(x + step * width + i, mask=i < width, other=0.0), 0.0)
        tl.store(y + step * width + i, state, mask=i < width)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        summed[(triton.cdiv(x.shape[1], 64),)](x, y, x.shape[0], x.shape[1], B=64)
        return y, y[-1]
