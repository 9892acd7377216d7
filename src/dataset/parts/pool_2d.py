# Pooling of images over windows that may overlap, with padding.

# takes: images
# choose B: 64 | 128 | 256
# epilogue: 0..2

# family: max_pool_2d
# choose HOW: 2, stride=1 | 3, stride=1, padding=1 | 3, stride=2, padding=1 | 2
# set MODULE: max_pool
# set TORCH: nn.MaxPool2d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, pool.dilation
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: dilated_pool_2d
# place: first
# choose HOW: 3, stride=1, padding=1, dilation=2 | 4, stride=2, padding=2, dilation=3 | 2, dilation=2
# set MODULE: dilated_pool
# set TORCH: nn.MaxPool2d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, pool.dilation
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: avg_pool_2d
# choose HOW: 2, stride=1 | 3, stride=1, padding=1 | 3, stride=2, padding=1 | 2
# set MODULE: avg_pool
# set TORCH: nn.AvgPool2d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, 1
# set START: 0.0
# set JOIN: acc + value
# set RESULT: acc / (SIZE * SIZE)

# --- init ---
self._MODULE_ = _TORCH_(_HOW_)

# --- forward ---
x = self._MODULE_(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, H, W, OH, OW, n, stride, padding, dilation, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    plane = offsets // (OH * OW)
    top = offsets // OW % OH * stride - padding
    left = offsets % OW * stride - padding
    acc = tl.full((BLOCK,), _START_, dtype=tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            y = top + i * dilation
            x = left + j * dilation
            inside = mask & (y >= 0) & (y < H) & (x >= 0) & (x < W)
            value = tl.load(x_ptr + (plane * H + y) * W + x, mask=inside, other=_START_)
            acc = _JOIN_
    acc = _RESULT_
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + offsets, acc, mask=mask)


def _NAME_(x, pool):
    B, C, H, W = x.shape
    size, stride, padding, dilation = _WINDOW_
    OH = (H + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    OW = (W + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    out = torch.empty((B, C, OH, OW), device=x.device, dtype=x.dtype)
    n = out.numel()
    _KERNEL_[(triton.cdiv(n, _B_),)](x, out, H, W, OH, OW, n, stride, padding, dilation, SIZE=size, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, self._MODULE_)
