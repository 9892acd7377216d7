# Linear layer: one program a tile of the result, which walks along the inner axis; tiles in two orders.

# takes: rows sequences
# choose BM: 16 | 32
# choose BN: 16 | 32 | 64
# choose BK: 16 | 32
# choose OUT: 32 | 48 | 64 | 96 | 128
# epilogue: 0..2

# family: linear_tiled
# set LAYER: gemm
# set PLACE: tl.program_id(0), tl.program_id(1)
# set GRID: triton.cdiv(M, _BM_), triton.cdiv(N, _BN_)

# family: linear_strips
# set LAYER: linear
# set PLACE: tl.program_id(0) // tl.cdiv(N, BLOCK_N), tl.program_id(0) % tl.cdiv(N, BLOCK_N)
# set GRID: triton.cdiv(M, _BM_) * triton.cdiv(N, _BN_),

# --- init ---
self._LAYER_ = nn.Linear(_IN_, _OUT_)

# --- forward ---
x = self._LAYER_(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tile_m, tile_n = _PLACE_
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + inner[:, None], mask=(cols[None, :] < N) & (inner[:, None] < K), other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    acc += tl.load(b_ptr + cols, mask=cols < N, other=0.0)[None, :]
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def _NAME_(x, weight, bias):
    N, K = weight.shape
    M = x.numel() // K
    out = torch.empty((*x.shape[:-1], N), device=x.device, dtype=x.dtype)
    grid = (_GRID_)
    _KERNEL_[grid](x, weight, bias, out, M, N, K, BLOCK_M=_BM_, BLOCK_N=_BN_, BLOCK_K=_BK_)
    return out

# --- call ---
x = _NAME_(x, self._LAYER_.weight, self._LAYER_.bias)
