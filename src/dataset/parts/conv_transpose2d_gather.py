# Transposed convolution of images, gathered: each output pixel looks for the inputs that reach it.

# takes: images
# choose B: 64 | 128 | 256
# choose OUT: 4 | 8 | 12
# choose SIZE: 2 | 3 | 3 | 4 | (3, 5)
# choose HOW: stride=1 | stride=2 | stride=(2, 1) | stride=2, output_padding=1 | stride=3, padding=1, output_padding=1 | stride=2, padding=1
# choose BIASED: True | True | False
# epilogue: 0..2

# --- init ---
self.conv_transpose = nn.ConvTranspose2d(_IN_, _OUT_, _SIZE_, _HOW_, bias=_BIASED_)

# --- forward ---
x = self.conv_transpose(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def conv_transpose2d_gather_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, H, W, N, OH, OW, stride_h, stride_w, pad_h, pad_w,
                            KH: tl.constexpr, KW: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    image = tl.program_id(0) // N
    channel = tl.program_id(0) % N
    pixels = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = pixels < OH * OW
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(C):
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                y = pixels // OW + pad_h - i
                x = pixels % OW + pad_w - j
                inside = mask & (y >= 0) & (y % stride_h == 0) & (y // stride_h < H)
                inside = inside & (x >= 0) & (x % stride_w == 0) & (x // stride_w < W)
                row = (image * C + c) * H + y // stride_h
                value = tl.load(x_ptr + row * W + x // stride_w, mask=inside, other=0.0)
                tap = (c * N + channel) * KH + i
                weight = tl.load(w_ptr + tap * KW + j)
                acc += value * weight
    if HAS_BIAS:
        acc += tl.load(b_ptr + channel)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (image * N + channel) * OH * OW + pixels, acc, mask=mask)


def conv_transpose2d_gather(x, conv):
    weight, bias = conv.weight, conv.bias
    (SH, SW), (PH, PW) = conv.stride, conv.padding
    B, C, H, W = x.shape
    _, N, KH, KW = weight.shape
    OH = (H - 1) * SH - 2 * PH + KH + conv.output_padding[0]
    OW = (W - 1) * SW - 2 * PW + KW + conv.output_padding[1]
    out = torch.empty((B, N, OH, OW), device=x.device, dtype=x.dtype)
    grid = (B * N, triton.cdiv(OH * OW, _B_))
    conv_transpose2d_gather_kernel[grid](x, weight, weight if bias is None else bias, out, C, H, W, N, OH, OW, SH, SW, PH, PW,
                                  KH=KH, KW=KW, HAS_BIAS=bias is not None, BLOCK=_B_)
    return out

# --- call ---
x = conv_transpose2d_gather(x, self.conv_transpose)
