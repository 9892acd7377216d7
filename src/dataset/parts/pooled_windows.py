# Pooling over windows that do not overlap.

# takes: images
# choose B: 64 | 128 | 256
# choose SIZE: 2
# epilogue: 0..2

# family: max_pool_windows
# set TORCH: F.max_pool2d(x, _SIZE_)
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: avg_pool_windows
# set TORCH: F.avg_pool2d(x, _SIZE_)
# set START: 0.0
# set JOIN: acc + value
# set RESULT: acc / (SIZE * SIZE)

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, H, W, OH, OW, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    plane = offsets // (OH * OW)
    row = offsets % (OH * OW) // OW * SIZE
    col = offsets % OW * SIZE
    acc = tl.full((BLOCK,), _START_, dtype=tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            value = tl.load(x_ptr + plane * H * W + (row + i) * W + col + j, mask=mask, other=_START_)
            acc = _JOIN_
    acc = _RESULT_
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + offsets, acc, mask=mask)


def _NAME_(x):
    B, C, H, W = x.shape
    OH, OW = H // _SIZE_, W // _SIZE_
    out = torch.empty((B, C, OH, OW), device=x.device, dtype=x.dtype)
    _KERNEL_[(triton.cdiv(out.numel(), _B_),)](x, out, H, W, OH, OW, out.numel(), SIZE=_SIZE_, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
