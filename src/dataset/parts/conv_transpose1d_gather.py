# Transposed convolution along one axis, gathered: each output looks for the inputs that reach it.

# takes: signals
# choose B: 32 | 64 | 128
# choose OUT: 4 | 8 | 12 | 16
# choose SIZE: 3 | 4 | 5
# choose STRIDE: 1 | 2 | 2 | 3
# choose PADDING: 0 | 1
# choose DILATION: 1 | 1 | 2
# choose BIASED: True | False
# epilogue: 0..2

# --- init ---
self.conv_transpose1d = nn.ConvTranspose1d(_IN_, _OUT_, _SIZE_, stride=_STRIDE_, padding=_PADDING_, dilation=_DILATION_, bias=_BIASED_)

# --- forward ---
x = self.conv_transpose1d(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def conv_transpose1d_gather_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, L, N, OL, stride, padding, dilation, SIZE: tl.constexpr,
                            HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0) // N
    channel = tl.program_id(0) % N
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(C):
        for k in tl.static_range(SIZE):
            place = at + padding - k * dilation
            inside = (at < OL) & (place >= 0) & (place % stride == 0) & (place // stride < L)
            value = tl.load(x_ptr + (batch * C + c) * L + place // stride, mask=inside, other=0.0)
            acc += value * tl.load(w_ptr + (c * N + channel) * SIZE + k)
    if HAS_BIAS:
        acc += tl.load(b_ptr + channel)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (batch * N + channel) * OL + at, acc, mask=at < OL)


def conv_transpose1d_gather(x, conv):
    weight, bias = conv.weight, conv.bias
    stride, padding, dilation = conv.stride[0], conv.padding[0], conv.dilation[0]
    B, C, L = x.shape
    _, N, size = weight.shape
    OL = (L - 1) * stride - 2 * padding + dilation * (size - 1) + 1
    out = torch.empty((B, N, OL), device=x.device, dtype=x.dtype)
    grid = (B * N, triton.cdiv(OL, _B_))
    conv_transpose1d_gather_kernel[grid](x, weight, weight if bias is None else bias, out, C, L, N, OL, stride, padding, dilation,
                                  SIZE=size, HAS_BIAS=bias is not None, BLOCK=_B_)
    return out

# --- call ---
x = conv_transpose1d_gather(x, self.conv_transpose1d)
