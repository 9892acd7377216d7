# Convolution of images straight from its definition: one program a block of pixels of one filter's output.

# takes: images
# place: first
# choose B: 64 | 128 | 256
# choose OUT: 4 | 8 | 12 | 16
# choose SIZE: 1 | 3 | 3 | 5 | (3, 5) | (5, 3)
# choose STRIDE: 1 | 1 | 2 | (1, 2)
# choose PADDING: 0 | 0 | 1 | 2 | (1, 2)
# choose DILATION: 1 | 1 | 2
# choose BIASED: True | True | False
# epilogue: 0..2

# --- init ---
self.conv = nn.Conv2d(_IN_, _OUT_, _SIZE_, stride=_STRIDE_, padding=_PADDING_, dilation=_DILATION_, bias=_BIASED_)

# --- forward ---
x = self.conv(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def conv2d_direct_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, H, W, N, OH, OW, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
                         KH: tl.constexpr, KW: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    image = tl.program_id(0) // N
    channel = tl.program_id(0) % N
    pixels = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = pixels < OH * OW
    top = pixels // OW * stride_h - pad_h
    left = pixels % OW * stride_w - pad_w
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(C):
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                y = top + i * dilation_h
                x = left + j * dilation_w
                inside = mask & (y >= 0) & (y < H) & (x >= 0) & (x < W)
                row = (image * C + c) * H + y
                value = tl.load(x_ptr + row * W + x, mask=inside, other=0.0)
                tap = (channel * C + c) * KH + i
                weight = tl.load(w_ptr + tap * KW + j)
                acc += value * weight
    if HAS_BIAS:
        acc += tl.load(b_ptr + channel)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (image * N + channel) * OH * OW + pixels, acc, mask=mask)


def conv2d_direct(x, conv):
    weight, bias = conv.weight, conv.bias
    (SH, SW), (PH, PW), (DH, DW) = conv.stride, conv.padding, conv.dilation
    B, C, H, W = x.shape
    N, _, KH, KW = weight.shape
    OH = (H + 2 * PH - DH * (KH - 1) - 1) // SH + 1
    OW = (W + 2 * PW - DW * (KW - 1) - 1) // SW + 1
    out = torch.empty((B, N, OH, OW), device=x.device, dtype=x.dtype)
    grid = (B * N, triton.cdiv(OH * OW, _B_))
    conv2d_direct_kernel[grid](x, weight, weight if bias is None else bias, out, C, H, W, N, OH, OW, SH, SW, PH, PW,
                               DH, DW, KH=KH, KW=KW, HAS_BIAS=bias is not None, BLOCK=_B_)
    return out

# --- call ---
x = conv2d_direct(x, self.conv)
