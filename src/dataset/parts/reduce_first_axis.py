# Reductions of columns: a program holds a tile of columns and walks down the rows.

# takes: rows
# gives: end
# choose BC: 16 | 32 | 64
# choose BR: 8 | 16 | 32
# epilogue: 0..2
# bounds: -80..80

# family: sum_columns
# set TORCH: torch.sum(x, dim=0)
# set START: 0.0
# set JOIN: acc + tl.sum(x, axis=0)
# set RESULT: acc

# family: mean_columns
# set TORCH: torch.mean(x, dim=0)
# set START: 0.0
# set JOIN: acc + tl.sum(x, axis=0)
# set RESULT: acc / M

# family: max_columns
# set TORCH: torch.amax(x, dim=0)
# set START: -float("inf")
# set JOIN: tl.maximum(acc, tl.max(x, axis=0))
# set RESULT: acc

# family: min_columns
# set TORCH: torch.amin(x, dim=0)
# set START: float("inf")
# set JOIN: tl.minimum(acc, tl.min(x, axis=0))
# set RESULT: acc

# family: norm_columns
# set TORCH: torch.linalg.vector_norm(x, dim=0)
# set START: 0.0
# set JOIN: acc + tl.sum(x * x, axis=0)
# set RESULT: tl.sqrt(acc)

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    acc = tl.full((COLS,), _START_, dtype=tl.float32)
    for start in range(0, M, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=_START_)
        acc = _JOIN_
    x = _RESULT_
    x = _EPILOGUE_(x)
    tl.store(out_ptr + cols, x, mask=cols < N)


def _NAME_(x):
    M, N = x.shape
    out = torch.empty(N, device=x.device, dtype=x.dtype)
    _KERNEL_[(triton.cdiv(N, _BC_),)](x, out, M, N, ROWS=_BR_, COLS=_BC_)
    return out

# --- call ---
x = _NAME_(x)
