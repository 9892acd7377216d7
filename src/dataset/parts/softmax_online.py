# Softmax along the last axis of rows that need not fit a block: one walk for maximum and sum, one to write.

# takes: rows sequences
# choose B: 32 | 64 | 128
# epilogue: 0..1

# family: softmax_online
# set TORCH: torch.softmax(x, dim=-1)
# set RESULT: tl.exp(x - top) / total
# bounds: 0..1

# family: log_softmax_online
# set TORCH: torch.log_softmax(x, dim=-1)
# set RESULT: x - top - tl.log(total)
# bounds: -50..0

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), axis=0)
        top = new_top
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
        x = _RESULT_
        x = _EPILOGUE_(x)
        tl.store(out_ptr + row * n_cols + cols, x, mask=mask)


def _NAME_(x):
    n_cols = x.shape[-1]
    out = torch.empty_like(x)
    _KERNEL_[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
