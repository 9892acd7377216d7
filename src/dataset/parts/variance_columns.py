# Variance of columns in one walk by Welford's update, which does not cancel.

# takes: rows
# gives: end
# choose B: 16 | 32 | 64
# choose CORRECTION: 0 | 1
# epilogue: 0..1
# bounds: 0..20

# --- forward ---
x = torch.var(x, dim=0, correction=_CORRECTION_)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def variance_columns_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK,), dtype=tl.float32)
    spread = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(M):
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
        delta = x - mean
        mean += delta / (row + 1)
        spread += delta * (x - mean)
    x = spread / (M - _CORRECTION_)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + cols, x, mask=cols < N)


def variance_columns(x):
    M, N = x.shape
    out = torch.empty(N, device=x.device, dtype=x.dtype)
    variance_columns_kernel[(triton.cdiv(N, _B_),)](x, out, M, N, BLOCK=_B_)
    return out

# --- call ---
x = variance_columns(x)
