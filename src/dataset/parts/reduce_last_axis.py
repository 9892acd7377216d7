# Reductions of the last axis: a program walks along its row and reduces once, at the end.

# takes: rows sequences
# gives: end
# choose B: 32 | 64 | 128
# epilogue: 0..2
# bounds: -80..80

# family: sum_last_axis
# set TORCH: x.sum(-1)
# set START: 0.0
# set JOIN: acc + x
# set RESULT: tl.sum(acc, axis=0)

# family: mean_last_axis
# set TORCH: x.mean(-1)
# set START: 0.0
# set JOIN: acc + x
# set RESULT: tl.sum(acc, axis=0) / n_cols

# family: max_last_axis
# set TORCH: x.amax(-1)
# set START: -float("inf")
# set JOIN: tl.maximum(acc, x)
# set RESULT: tl.max(acc, axis=0)

# family: min_last_axis
# set TORCH: x.amin(-1)
# set START: float("inf")
# set JOIN: tl.minimum(acc, x)
# set RESULT: tl.min(acc, axis=0)

# family: abs_sum_last_axis
# set TORCH: x.abs().sum(-1)
# set START: 0.0
# set JOIN: acc + tl.abs(x)
# set RESULT: tl.sum(acc, axis=0)

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.full((BLOCK,), _START_, dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=_START_)
        acc = _JOIN_
    x = _RESULT_
    x = _EPILOGUE_(x)
    tl.store(out_ptr + row, x)


def _NAME_(x):
    n_cols = x.shape[-1]
    out = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
    _KERNEL_[(out.numel(),)](x, out, n_cols, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
