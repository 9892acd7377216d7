# Batch norm of channels by their own statistics: a program a channel gathers them over all images, a second kernel
# applies them.

# takes: images signals volumes
# choose B: 128 | 256
# choose BA: 256 | 512
# epilogue: 0..2

# --- init ---
self.channel_scale = nn.Parameter(torch.rand(_IN_) + 0.5)
self.channel_shift = nn.Parameter(torch.randn(_IN_))

# --- forward ---
x = F.batch_norm(x, None, None, self.channel_scale, self.channel_shift, training=True)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def channel_statistics_kernel(x_ptr, mean_ptr, variance_ptr, images, C, pixels, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    n = images * pixels
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + (at // pixels * C + channel) * pixels + at % pixels, mask=at < n, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n
    tl.store(mean_ptr + channel, mean)
    tl.store(variance_ptr + channel, tl.sum(squares, axis=0) / n - mean * mean)


@triton.jit
def channel_normalise_kernel(x_ptr, mean_ptr, variance_ptr, scale_ptr, shift_ptr, out_ptr, n, C, pixels, eps, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    channel = offsets // pixels % C
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    x = (x - tl.load(mean_ptr + channel)) / tl.sqrt(tl.load(variance_ptr + channel) + eps)
    x = x * tl.load(scale_ptr + channel) + tl.load(shift_ptr + channel)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def batch_norm_images(x, scale, shift):
    B, C = x.shape[:2]
    pixels = x.numel() // (B * C)
    mean = torch.empty(C, device=x.device, dtype=torch.float32)
    variance = torch.empty(C, device=x.device, dtype=torch.float32)
    out = torch.empty_like(x)
    channel_statistics_kernel[(C,)](x, mean, variance, B, C, pixels, BLOCK=_B_)
    grid = (triton.cdiv(x.numel(), _BA_),)
    channel_normalise_kernel[grid](x, mean, variance, scale, shift, out, x.numel(), C, pixels, 1e-5, BLOCK=_BA_)
    return out

# --- call ---
x = batch_norm_images(x, self.channel_scale, self.channel_shift)
