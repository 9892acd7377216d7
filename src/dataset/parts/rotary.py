# Rotary position embedding: halves of the features turned by angles that grow with the position.

# takes: sequences
# choose B: 128 | 256
# choose BASE: 100.0 | 1000.0 | 10000.0
# epilogue: 0..1

# --- forward ---
half = x.shape[2] // 2
angle = torch.arange(x.shape[1], device=x.device)[:, None] * _BASE_ ** (-torch.arange(half, device=x.device) / half)
left, right = x[..., :half], x[..., half:]
x = torch.cat([left * torch.cos(angle) - right * torch.sin(angle), right * torch.cos(angle) + left * torch.sin(angle)], dim=-1)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def rotary_kernel(x_ptr, out_ptr, n, T, D, log_base, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    half = D // 2
    dim = offsets % D
    angle = (offsets // D % T) * tl.exp(-log_base * (dim % half) / half)
    partner = tl.where(dim < half, offsets + half, offsets - half)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    other = tl.load(x_ptr + partner, mask=mask, other=0.0)
    x = x * tl.cos(angle) + tl.where(dim < half, -other, other) * tl.sin(angle)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def rotary(x):
    B, T, D = x.shape
    out = torch.empty_like(x)
    rotary_kernel[(triton.cdiv(x.numel(), _B_),)](x, out, x.numel(), T, D, math.log(_BASE_), BLOCK=_B_)
    return out

# --- call ---
x = rotary(x)
