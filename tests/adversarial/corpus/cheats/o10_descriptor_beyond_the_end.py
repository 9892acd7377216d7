# O10: a descriptor that the host makes says more rows than its tensor has, so that what lies behind it is read
# stopped by: runtime_error
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(40, 64)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def relu(x, y, BM: tl.constexpr):
    m = tl.program_id(0) * BM
    y.store([m, 0], tl.maximum(x.load([m, 0]), 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        given = TensorDescriptor(x, [48, 64], [64, 1], [16, 64])
        relu[(3,)](given, TensorDescriptor.from_tensor(y, [16, 64]), 16)
        return y
