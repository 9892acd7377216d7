# Pooling of volumes over windows that may overlap, with padding.

# takes: volumes
# choose B: 64 | 128 | 256
# epilogue: 0..2

# family: max_pool_3d
# choose HOW: 2 | 3, stride=1, padding=1 | 3, stride=2, padding=1
# set MODULE: max_pool3d
# set TORCH: nn.MaxPool3d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, pool.dilation
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: dilated_pool_3d
# place: first
# choose HOW: 3, stride=1, padding=1, dilation=2 | 3, stride=2, padding=1, dilation=2 | 2, dilation=3
# set MODULE: dilated_pool3d
# set TORCH: nn.MaxPool3d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, pool.dilation
# set START: -float("inf")
# set JOIN: tl.maximum(acc, value)
# set RESULT: acc

# family: avg_pool_3d
# choose HOW: 2 | 3, stride=1, padding=1 | 3, stride=2, padding=1
# set MODULE: avg_pool3d
# set TORCH: nn.AvgPool3d
# set WINDOW: pool.kernel_size, pool.stride, pool.padding, 1
# set START: 0.0
# set JOIN: acc + value
# set RESULT: acc / (SIZE * SIZE * SIZE)

# --- init ---
self._MODULE_ = _TORCH_(_HOW_)

# --- forward ---
x = self._MODULE_(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, D, H, W, OD, OH, OW, n, stride, padding, dilation, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    volume = offsets // (OD * OH * OW)
    front = offsets // (OH * OW) % OD * stride - padding
    top = offsets // OW % OH * stride - padding
    left = offsets % OW * stride - padding
    acc = tl.full((BLOCK,), _START_, dtype=tl.float32)
    for d in tl.static_range(SIZE):
        for i in tl.static_range(SIZE):
            for j in tl.static_range(SIZE):
                z = front + d * dilation
                y = top + i * dilation
                x = left + j * dilation
                inside = mask & (z >= 0) & (z < D) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
                plane = volume * D + z
                row = plane * H + y
                value = tl.load(x_ptr + row * W + x, mask=inside, other=_START_)
                acc = _JOIN_
    acc = _RESULT_
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + offsets, acc, mask=mask)


def _NAME_(x, pool):
    B, C, D, H, W = x.shape
    size, stride, padding, dilation = _WINDOW_
    reach = dilation * (size - 1) + 1
    OD, OH, OW = [(side + 2 * padding - reach) // stride + 1 for side in (D, H, W)]
    out = torch.empty((B, C, OD, OH, OW), device=x.device, dtype=x.dtype)
    n = out.numel()
    _KERNEL_[(triton.cdiv(n, _B_),)](x, out, D, H, W, OD, OH, OW, n, stride, padding, dilation, SIZE=size, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, self._MODULE_)
