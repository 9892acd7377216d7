# Matrix product with a weight whose tile is chosen by the autotuner.

# takes: rows sequences
# choose FIRST: 16 | 32
# choose SECOND: 32 | 64
# choose STAGES: 2 | 3 | 4
# choose OUT: 32 | 48 | 64 | 96 | 128
# epilogue: 0..2

# --- init ---
self.tuned_weight = nn.Parameter(torch.randn(_IN_, _OUT_) / _IN_ ** 0.5)

# --- forward ---
x = torch.matmul(x, self.tuned_weight)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": _FIRST_, "BLOCK_N": _FIRST_, "BLOCK_K": 16}, num_warps=2, num_stages=_STAGES_),
        triton.Config({"BLOCK_M": _FIRST_, "BLOCK_N": _SECOND_, "BLOCK_K": 32}, num_warps=4, num_stages=_STAGES_),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def _KERNEL_(x_ptr, w_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0)
        w = tl.load(w_ptr + inner[:, None] * N + cols[None, :], mask=(inner[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def linear_autotuned(x, weight):
    K, N = weight.shape
    M = x.numel() // K
    out = torch.empty((*x.shape[:-1], N), device=x.device, dtype=x.dtype)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    _KERNEL_[grid](x, weight, out, M, N, K)
    return out

# --- call ---
x = linear_autotuned(x, self.tuned_weight)
