# Channels weighted by a gate that their own mean opens: one kernel for the means, one that applies them.

# takes: images
# choose B: 64 | 128 | 256
# choose SHARP: 0.5 | 1.0 | 2.0
# epilogue: 0..1

# --- forward ---
x = x * torch.sigmoid(_SHARP_ * x.mean((2, 3), keepdim=True))
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def plane_mean_kernel(x_ptr, mean_ptr, pixels, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, pixels, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + plane * pixels + at, mask=at < pixels, other=0.0)
    tl.store(mean_ptr + plane, tl.sum(total, axis=0) / pixels)


@triton.jit
def apply_gate_kernel(x_ptr, mean_ptr, out_ptr, n, pixels, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    x = x * tl.sigmoid(_SHARP_ * tl.load(mean_ptr + offsets // pixels, mask=mask, other=0.0))
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def channel_gate(x):
    B, C, H, W = x.shape
    mean = torch.empty((B, C), device=x.device, dtype=torch.float32)
    out = torch.empty_like(x)
    plane_mean_kernel[(B * C,)](x, mean, H * W, BLOCK=_B_)
    apply_gate_kernel[(triton.cdiv(x.numel(), _B_),)](x, mean, out, x.numel(), H * W, BLOCK=_B_)
    return out

# --- call ---
x = channel_gate(x)
