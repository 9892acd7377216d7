# Convolution over time that looks back only, each feature with taps of its own.

# takes: sequences
# choose B: 128 | 256
# choose TAPS: 2 | 3 | 4
# epilogue: 0..2

# --- init ---
self.taps = nn.Parameter(torch.randn(_IN_, 1, _TAPS_) / _TAPS_ ** 0.5)

# --- forward ---
x = F.conv1d(F.pad(x.transpose(1, 2), (_TAPS_ - 1, 0)), self.taps, groups=x.shape[2]).transpose(1, 2).contiguous()
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def causal_conv1d_kernel(x_ptr, w_ptr, out_ptr, n, T, D, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    dim = offsets % D
    time = offsets // D % T
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        back = TAPS - 1 - tap
        x = tl.load(x_ptr + offsets - back * D, mask=mask & (time >= back), other=0.0)
        acc += x * tl.load(w_ptr + dim * TAPS + tap, mask=mask, other=0.0)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + offsets, acc, mask=mask)


def causal_conv1d(x, taps):
    B, T, D = x.shape
    out = torch.empty_like(x)
    causal_conv1d_kernel[(triton.cdiv(x.numel(), _B_),)](x, taps, out, x.numel(), T, D, TAPS=_TAPS_, BLOCK=_B_)
    return out

# --- call ---
x = causal_conv1d(x, self.taps)
