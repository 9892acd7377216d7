# Columns moved within their row: rolled around or turned back to front.

# takes: rows sequences
# choose B: 128 | 256 | 512
# epilogue: 0..2

# family: roll_columns
# choose SHIFT: 1 | 3 | 7 | 16
# set TORCH: torch.roll(x, _SHIFT_, -1)
# set SOURCE: (cols + n_cols - _SHIFT_ % n_cols) % n_cols

# family: flip_columns
# set TORCH: torch.flip(x, (-1,))
# set SOURCE: n_cols - 1 - cols

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, n, n_cols, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    cols = offsets % n_cols
    x = tl.load(x_ptr + offsets - cols + _SOURCE_, mask=mask, other=0.0)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def _NAME_(x):
    out = torch.empty_like(x)
    _KERNEL_[(triton.cdiv(x.numel(), _B_),)](x, out, x.numel(), x.shape[-1], BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
