# Cosine similarity of paired rows: three sums in one walk.

# takes: rows
# gives: end
# choose B: 32 | 64 | 128

# --- inputs ---
other = torch.randn(batch_size, _IN_)

# --- forward ---
x = F.cosine_similarity(x, other, dim=1)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, y_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cross = tl.zeros((BLOCK,), dtype=tl.float32)
    x_norm = tl.zeros((BLOCK,), dtype=tl.float32)
    y_norm = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        y = tl.load(y_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        cross += x * y
        x_norm += x * x
        y_norm += y * y
    tl.store(out_ptr + row, tl.sum(cross, axis=0) / tl.sqrt(tl.sum(x_norm, axis=0) * tl.sum(y_norm, axis=0)))


def _NAME_(x, other):
    rows, n_cols = x.shape
    out = torch.empty(rows, device=x.device, dtype=x.dtype)
    _KERNEL_[(rows,)](x, other, out, n_cols, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, other)
