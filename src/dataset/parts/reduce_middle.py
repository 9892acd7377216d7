# Reductions over the middle axis, whose values lie a stride apart: a program holds a block of the last axis.

# takes: sequences signals
# gives: end
# choose B: 16 | 32 | 64
# epilogue: 0..1
# bounds: -80..80

# family: sum_middle
# choose KEEP: True | False
# set TORCH: torch.sum(x, dim=1, keepdim=_KEEP_)
# set SHAPE: (B, 1, D) if _KEEP_ else (B, D)
# set START: 0.0
# set JOIN: acc + x

# family: mean_middle
# set TORCH: torch.mean(x, dim=1)
# set SHAPE: (B, D)
# set START: 0.0
# set JOIN: acc + x / T

# family: min_middle
# set TORCH: torch.min(x, dim=1)[0]
# set SHAPE: (B, D)
# set START: float("inf")
# set JOIN: tl.minimum(acc, x)

# family: max_middle
# set TORCH: torch.max(x, dim=1, keepdim=True).values
# set SHAPE: (B, 1, D)
# set START: -float("inf")
# set JOIN: tl.maximum(acc, x)

# family: norm_squared_middle
# set TORCH: (x * x).sum(dim=1)
# set SHAPE: (B, D)
# set START: 0.0
# set JOIN: acc + x * x

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, T, D, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.full((BLOCK,), _START_, dtype=tl.float32)
    for step in range(T):
        x = tl.load(x_ptr + (batch * T + step) * D + cols, mask=cols < D, other=0.0)
        acc = _JOIN_
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + batch * D + cols, acc, mask=cols < D)


def _NAME_(x):
    B, T, D = x.shape
    out = torch.empty(_SHAPE_, device=x.device, dtype=x.dtype)
    _KERNEL_[(B, triton.cdiv(D, _B_))](x, out, T, D, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
