# A network of modules, each with a kernel of its own.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.net(x)


def get_inputs():
    return [torch.randn(16, 20)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def linear(x, w, b, y, N, K, RELU: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0), tl.arange(0, BN), tl.arange(0, BK)
    weight = tl.load(w + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    row = tl.load(x + m * K + k, mask=k < K, other=0.0)
    v = tl.sum(weight * row[None, :], 1) + tl.load(b + n, mask=n < N, other=0.0)
    if RELU:
        v = tl.maximum(v, 0.0)
    tl.store(y + m * N + n, v, mask=n < N)


class TritonLinear(nn.Linear):
    def __init__(self, i, o, relu):
        super().__init__(i, o)
        self.relu = relu

    def forward(self, x):
        y = x.new_empty((x.shape[0], self.out_features))
        linear[(x.shape[0],)](x, self.weight, self.bias, y, self.out_features, self.in_features, self.relu,
                              triton.next_power_of_2(self.out_features), triton.next_power_of_2(self.in_features))
        return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(TritonLinear(20, 32, True), nn.Identity(), TritonLinear(32, 10, False))

    def forward(self, x):
        return self.net(x)
