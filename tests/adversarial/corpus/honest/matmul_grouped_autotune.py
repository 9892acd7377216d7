# Grouped program order, three configurations, half precision with float32 accumulation.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(96, 64, dtype=torch.float16), torch.randn(64, 80, dtype=torch.float16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 32, "BK": 32, "GROUP_M": 4}, num_stages=3, num_warps=4),
        triton.Config({"BM": 64, "BN": 16, "BK": 32, "GROUP_M": 8}, num_stages=2, num_warps=4),
        triton.Config({"BM": 16, "BN": 64, "BK": 64, "GROUP_M": 2}, num_stages=2, num_warps=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           GROUP_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    num_in_group = GROUP_M * num_pid_n
    group = pid // num_in_group
    first = group * GROUP_M
    size = min(num_pid_m - first, GROUP_M)
    pid_m = first + ((pid % num_in_group) % size)
    pid_n = (pid % num_in_group) // size
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    A = a + rm[:, None] * sam + rk[None, :] * sak
    B = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc += tl.dot(tl.load(A, mask=rk[None, :] < K - k * BK, other=0.0),
                      tl.load(B, mask=rk[:, None] < K - k * BK, other=0.0))
        A += BK * sak
        B += BK * sbk
    rm, rn = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=torch.float16)
        grid = lambda META: (triton.cdiv(M, META["BM"]) * triton.cdiv(N, META["BN"]),)
        matmul[grid](a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1))
        return c
