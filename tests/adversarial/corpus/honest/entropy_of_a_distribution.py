# The entropy at the end is torch.distributions', the layers before it are kernels.
# handed: the reference has its arguments checked by value, so that it is no plan.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 64)
        self.head = nn.Linear(64, 8)

    def forward(self, x):
        h = torch.tanh(self.fc(x))
        dist = torch.distributions.Categorical(logits=self.head(h))
        return dist.logits, dist.entropy()


def get_inputs():
    return [torch.randn(32, 32)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


from triton.language.extra import libdevice


@triton.jit
def fc(x, w, b, y, M, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, TANH: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n, kk = tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + kk[None, :], mask=m[:, None] < M, other=0.0)
    acc = tl.sum(a[:, None, :] * tl.load(w + n[:, None] * K + kk[None, :])[None], 2) + tl.load(b + n)[None, :]
    if TANH:
        acc = libdevice.tanh(acc)
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 64)
        self.head = nn.Linear(64, 8)

    def run(self, x, layer, tanh):
        M, K = x.shape
        y = torch.empty(M, layer.out_features, device=x.device)
        fc[(triton.cdiv(M, 4),)](x, layer.weight, layer.bias, y, M, N=layer.out_features, K=K, BM=4, TANH=tanh)
        return y

    def forward(self, x):
        dist = torch.distributions.Categorical(logits=self.run(self.run(x, self.fc, True), self.head, False))
        return dist.logits, dist.entropy()
