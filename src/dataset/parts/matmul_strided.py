# Products of two inputs of which either may be transposed: the kernel is told the strides of both.

# takes: rows
# gives: end
# choose BM: 16 | 32
# choose BN: 16 | 32 | 64
# choose BK: 16 | 32
# choose COLS: 48 | 64 | 80 | 128
# epilogue: 0..2

# family: matmul_first_transposed
# set OTHER: torch.randn(batch_size, _COLS_)
# set TORCH: torch.matmul(x.T, other)
# set LEFT: x.T
# set RIGHT: other

# family: matmul_second_transposed
# set OTHER: torch.randn(_COLS_, _IN_)
# set TORCH: torch.matmul(x, other.T)
# set LEFT: x
# set RIGHT: other.T

# family: matmul_both_transposed
# set OTHER: torch.randn(_COLS_, batch_size)
# set TORCH: torch.matmul(x.T, other.T)
# set LEFT: x.T
# set RIGHT: other.T

# --- inputs ---
other = _OTHER_

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M: tl.constexpr,
             BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak, mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * stride_bk + cols[None, :] * stride_bn, mask=(inner[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def _NAME_(a, b):
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, _BM_), triton.cdiv(N, _BN_))
    _KERNEL_[grid](a, b, out, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), BLOCK_M=_BM_, BLOCK_N=_BN_, BLOCK_K=_BK_)
    return out

# --- call ---
x = _NAME_(_LEFT_, _RIGHT_)
