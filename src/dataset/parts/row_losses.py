# Losses between two tensors of one shape, row by row.

# takes: rows
# gives: end
# choose B: 32 | 64 | 128

# family: squared_error_rows
# set TORCH: ((x - other) ** 2).mean(1)
# set LOSS: (x - y) * (x - y)

# family: absolute_error_rows
# set TORCH: F.l1_loss(x, other, reduction="none").mean(1)
# set LOSS: tl.abs(x - y)

# family: huber_rows
# set TORCH: F.smooth_l1_loss(x, other, reduction="none").mean(1)
# set LOSS: tl.where(tl.abs(x - y) < 1, 0.5 * (x - y) * (x - y), tl.abs(x - y) - 0.5)

# --- inputs ---
other = torch.randn(batch_size, _IN_)

# --- forward ---
x = _TORCH_

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, y_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        y = tl.load(y_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        total += _LOSS_
    tl.store(out_ptr + row, tl.sum(total, axis=0) / n_cols)


def _NAME_(x, other):
    rows, n_cols = x.shape
    out = torch.empty(rows, device=x.device, dtype=x.dtype)
    _KERNEL_[(rows,)](x, other, out, n_cols, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, other)
