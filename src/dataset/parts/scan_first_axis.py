# Running sums and means down the columns: a program walks its columns row by row.

# takes: rows
# choose B: 16 | 32 | 64
# epilogue: 0..1
# bounds: -60..60

# family: cumsum_columns
# set TORCH: torch.cumsum(x, dim=0)
# set RESULT: total

# family: running_mean_columns
# set TORCH: torch.cumsum(x, dim=0) / torch.arange(1, x.shape[0] + 1, device=x.device)[:, None]
# set RESULT: total / (row + 1)

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < N
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(M):
        total += tl.load(x_ptr + row * N + cols, mask=mask, other=0.0)
        x = _RESULT_
        x = _EPILOGUE_(x)
        tl.store(out_ptr + row * N + cols, x, mask=mask)


def _NAME_(x):
    M, N = x.shape
    out = torch.empty_like(x)
    _KERNEL_[(triton.cdiv(N, _B_),)](x, out, M, N, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
