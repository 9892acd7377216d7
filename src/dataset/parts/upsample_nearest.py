# Images enlarged by repeating pixels: every output pixel finds its source.

# takes: images
# choose B: 128 | 256 | 512
# choose FACTOR: 2 | 3
# epilogue: 0..2

# --- forward ---
x = F.interpolate(x, scale_factor=_FACTOR_, mode="nearest")
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def upsample_nearest_kernel(x_ptr, out_ptr, H, W, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    col = offsets % (W * FACTOR)
    row = offsets // (W * FACTOR) % (H * FACTOR)
    plane = offsets // (W * FACTOR * H * FACTOR)
    x = tl.load(x_ptr + (plane * H + row // FACTOR) * W + col // FACTOR, mask=mask, other=0.0)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def upsample_nearest(x):
    B, C, H, W = x.shape
    out = torch.empty((B, C, H * _FACTOR_, W * _FACTOR_), device=x.device, dtype=x.dtype)
    upsample_nearest_kernel[(triton.cdiv(out.numel(), _B_),)](x, out, H, W, out.numel(), FACTOR=_FACTOR_, BLOCK=_B_)
    return out

# --- call ---
x = upsample_nearest(x)
