# A product that is spelled out is left to torch, the one behind it is a kernel's, as is what is between.
import torch


class Model(torch.nn.Module):
    def forward(self, x, w, v):
        h = (x[:, :, None] * w[None, :, :]).sum(1)
        return torch.relu(h) @ v


def get_inputs():
    return [torch.randn(128, 64), torch.randn(64, 256), torch.randn(256, 256)]

# ---- candidate ----
import torch
import triton
import triton.language as tl


@triton.jit
def product_of_relu(h, v, y, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        left = tl.maximum(tl.load(h + m * K + k, mask=m < M, other=0.0), 0.0)
        total += left[:, None] * tl.load(v + k * N + n, mask=n < N, other=0.0)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, x, w, v):
        h, (K, N) = x @ w, v.shape
        y = torch.empty(h.shape[0], N, device=x.device)
        product_of_relu[(triton.cdiv(h.shape[0], 16),)](h, v, y, h.shape[0], N, K, 16, triton.next_power_of_2(N))
        return y
