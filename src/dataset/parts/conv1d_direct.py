# Convolution along one axis, straight from its definition: one program a block of outputs of one filter.

# takes: signals
# place: first
# choose B: 32 | 64 | 128
# choose OUT: 4 | 8 | 12 | 16
# choose SIZE: 1 | 3 | 5
# choose STRIDE: 1 | 1 | 2 | 3
# choose PADDING: 0 | 0 | 1 | 2
# choose DILATION: 1 | 1 | 2 | 3
# choose BIASED: True | False
# epilogue: 0..2

# --- init ---
self.conv1d = nn.Conv1d(_IN_, _OUT_, _SIZE_, stride=_STRIDE_, padding=_PADDING_, dilation=_DILATION_, bias=_BIASED_)

# --- forward ---
x = self.conv1d(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def conv1d_direct_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, L, N, OL, stride, padding, dilation, SIZE: tl.constexpr,
                         HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0) // N
    channel = tl.program_id(0) % N
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(C):
        for k in tl.static_range(SIZE):
            place = at * stride + k * dilation - padding
            inside = (at < OL) & (place >= 0) & (place < L)
            value = tl.load(x_ptr + (batch * C + c) * L + place, mask=inside, other=0.0)
            acc += value * tl.load(w_ptr + (channel * C + c) * SIZE + k)
    if HAS_BIAS:
        acc += tl.load(b_ptr + channel)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (batch * N + channel) * OL + at, acc, mask=at < OL)


def conv1d_direct(x, conv):
    weight, bias = conv.weight, conv.bias
    stride, padding, dilation = conv.stride[0], conv.padding[0], conv.dilation[0]
    B, C, L = x.shape
    N, _, size = weight.shape
    OL = (L + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    out = torch.empty((B, N, OL), device=x.device, dtype=x.dtype)
    grid = (B * N, triton.cdiv(OL, _B_))
    conv1d_direct_kernel[grid](x, weight, weight if bias is None else bias, out, C, L, N, OL, stride, padding, dilation,
                               SIZE=size, HAS_BIAS=bias is not None, BLOCK=_B_)
    return out

# --- call ---
x = conv1d_direct(x, self.conv1d)
