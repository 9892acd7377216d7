# Pooling along one axis over windows that may overlap, with padding.

# takes: signals
# choose B: 32 | 64 | 128
# epilogue: 0..2

# family: max_pool_1d
# choose HOW: 2 | 3, stride=1, padding=1 | 3, stride=2, padding=1 | 4, stride=2, padding=2
# set MODULE: max_pool1d
# set TORCH: nn.MaxPool1d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, pool.dilation
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: dilated_pool_1d
# place: first
# choose HOW: 3, stride=1, padding=1, dilation=2 | 4, stride=2, padding=2, dilation=3 | 5, dilation=2 | 3, stride=3, dilation=3
# set MODULE: maxpool
# set TORCH: nn.MaxPool1d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, pool.dilation
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: avg_pool_1d
# choose HOW: 2 | 3, stride=1, padding=1 | 3, stride=2, padding=1 | 4, stride=2, padding=2
# set MODULE: avg_pool1d
# set TORCH: nn.AvgPool1d
# set WINDOW: pool.kernel_size[0], pool.stride[0], pool.padding[0], 1
# set START: 0.0
# set JOIN: acc + value
# set RESULT: acc / SIZE

# --- init ---
self._MODULE_ = _TORCH_(_HOW_)

# --- forward ---
x = self._MODULE_(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, L, OL, n, stride, padding, dilation, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    line = offsets // OL
    left = offsets % OL * stride - padding
    acc = tl.full((BLOCK,), _START_, dtype=tl.float32)
    for k in tl.static_range(SIZE):
        place = left + k * dilation
        inside = mask & (place >= 0) & (place < L)
        value = tl.load(x_ptr + line * L + place, mask=inside, other=_START_)
        acc = _JOIN_
    acc = _RESULT_
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + offsets, acc, mask=mask)


def _NAME_(x, pool):
    B, C, L = x.shape
    size, stride, padding, dilation = _WINDOW_
    OL = (L + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    out = torch.empty((B, C, OL), device=x.device, dtype=x.dtype)
    n = out.numel()
    _KERNEL_[(triton.cdiv(n, _B_),)](x, out, L, OL, n, stride, padding, dilation, SIZE=size, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, self._MODULE_)
