# Tensor descriptors that the host makes, in a persistent matrix product.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b.t()


def get_inputs():
    return [torch.randn(80, 64, dtype=torch.float16), torch.randn(72, 64, dtype=torch.float16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, PROGRAMS):
        m, n = tile // tiles_n * BM, tile % tiles_n * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK, num_stages=2):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        c.store([m, n], acc.to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[0]
        c = torch.empty(M, N, device=a.device, dtype=a.dtype)
        left = TensorDescriptor(a, a.shape, a.stride(), [16, 32])
        right = TensorDescriptor.from_tensor(b, [16, 32])
        out = TensorDescriptor.from_tensor(c, [16, 16])
        matmul[(4,)](left, right, out, M, N, K, 16, 16, 32, 4)
        return c
