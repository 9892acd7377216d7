# Channels of one pixel against each other, which lie a plane apart: a tile of channels by pixels.

# takes: images signals volumes
# choose B: 32 | 64
# epilogue: 0..1

# family: channel_softmax
# set TORCH: torch.softmax(x, dim=1)
# set FILL: -float("inf")
# set RESULT: tl.exp(x - tl.max(x, axis=0)[None, :]) / tl.sum(tl.exp(x - tl.max(x, axis=0)[None, :]), axis=0)[None, :]
# bounds: 0..1

# family: channel_l2
# set TORCH: x / torch.sqrt((x * x).sum(1, keepdim=True) + 1e-3)
# set FILL: 0.0
# set RESULT: x / tl.sqrt(tl.sum(x * x, axis=0)[None, :] + 1e-3)
# bounds: -1..1

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, out_ptr, C, pixels, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    channels = tl.arange(0, CHANNELS)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = (tl.program_id(1) * C + channels[:, None]) * pixels + at[None, :]
    mask = (channels[:, None] < C) & (at[None, :] < pixels)
    x = tl.load(x_ptr + place, mask=mask, other=_FILL_)
    x = _RESULT_
    x = _EPILOGUE_(x)
    tl.store(out_ptr + place, x, mask=mask)


def _NAME_(x):
    B, C = x.shape[:2]
    pixels = x.numel() // (B * C)
    out = torch.empty_like(x)
    grid = (triton.cdiv(pixels, _B_), B)
    _KERNEL_[grid](x, out, C, pixels, CHANNELS=triton.next_power_of_2(C), BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x)
