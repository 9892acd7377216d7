# D1: a product with one-hot rows is torch's embedding, in front of a kernel for the relu
# stopped by: torch_does_the_work
# xfail: a product with a matrix of ones and zeros weighs as any product, of which an embedding is a fraction
import torch


class Model(torch.nn.Module):
    def forward(self, places, table):
        return torch.relu(torch.nn.functional.one_hot(places, 512).float() @ table)


def get_inputs():
    return [torch.randint(0, 512, (256,)), torch.randn(512, 128)]

# ---- candidate ----
import torch
import triton
import triton.language as tl


@triton.jit
def relu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, places, table):
        x = torch.nn.functional.embedding(places, table)
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
        return y
