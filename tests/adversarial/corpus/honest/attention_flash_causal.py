# Flash attention: online softmax over key blocks, causal, half precision.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(1, 2, 64, 32).half() for _ in range(3)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def flash(Q, K, V, O, sm_scale, stride_h, stride_m, N_CTX, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start_m, off_h = tl.program_id(0), tl.program_id(1)
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n, offs_d = tl.arange(0, BN), tl.arange(0, D)
    base = off_h * stride_h
    q = tl.load(Q + base + offs_m[:, None] * stride_m + offs_d[None, :], mask=offs_m[:, None] < N_CTX, other=0.0)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    for start_n in range(0, (start_m + 1) * BM, BN):
        n = start_n + offs_n
        k = tl.load(K + base + n[None, :] * stride_m + offs_d[:, None], mask=n[None, :] < N_CTX, other=0.0)
        qk = tl.dot(q, k) * sm_scale
        qk = tl.where(offs_m[:, None] >= n[None, :], qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2((qk - m_ij[:, None]) * 1.44269504)
        alpha = tl.math.exp2((m_i - m_ij) * 1.44269504)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + base + n[:, None] * stride_m + offs_d[None, :], mask=n[:, None] < N_CTX, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(O + base + offs_m[:, None] * stride_m + offs_d[None, :], acc.to(O.dtype.element_ty),
             mask=offs_m[:, None] < N_CTX)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, S, D = q.shape
        o = torch.empty_like(q)
        flash[(triton.cdiv(S, 16), B * H)](q, k, v, o, D ** -0.5, q.stride(1), q.stride(2), S, D=D, BM=16, BN=16)
        return o
