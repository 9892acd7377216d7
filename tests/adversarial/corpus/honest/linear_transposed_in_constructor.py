# The weight is transposed once, in the constructor.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(40, 24, bias=False)

    def forward(self, x):
        return torch.relu(self.fc(x))


def get_inputs():
    return [torch.randn(17, 40)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mm_relu(x, wt, y, M, N, K, B: tl.constexpr):
    m, n, k = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, B):
        kk = k0 + k
        acc += tl.dot(tl.load(x + m[:, None] * K + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0),
                      tl.load(wt + kk[:, None] * N + n[None, :], mask=(kk[:, None] < K) & (n[None, :] < N), other=0.0),
                      input_precision="ieee")
    tl.store(y + m[:, None] * N + n[None, :], tl.maximum(acc, 0.0), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        fc = nn.Linear(40, 24, bias=False)
        self.weight_t = nn.Parameter(fc.weight.detach().t().contiguous())

    def forward(self, x):
        K, N = self.weight_t.shape
        y = torch.empty(x.shape[0], N, device=x.device)
        mm_relu[(triton.cdiv(x.shape[0], 16), triton.cdiv(N, 16))](x, self.weight_t, y, x.shape[0], N, K, B=16)
        return y
