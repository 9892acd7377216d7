# A linear layer with its activation as the epilogue, chosen by a tl.constexpr string.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(24, 48)]


def get_init_inputs():
    return [48, 40]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def act(v, KIND: tl.constexpr):
    if KIND == "gelu":
        return 0.5 * v * (1.0 + tl.math.erf(v * 0.7071067811865476))
    elif KIND == "relu":
        return tl.maximum(v, 0.0)
    else:
        return v


@triton.jit
def linear_act(x, w, b, y, M, N, K, ACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        xt = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        wt = tl.load(w + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc += tl.dot(xt, wt, allow_tf32=False)
    acc += tl.load(b + n, mask=n < N)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], act(acc, ACT), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)

    def forward(self, x):
        M, K = x.shape
        N = self.linear.out_features
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        linear_act[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, self.linear.weight, self.linear.bias, y, M, N, K, "gelu",
                                                             16, 16, 16)
        return y
