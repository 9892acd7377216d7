# Transposed convolution of volumes, gathered: each output voxel looks for the inputs that reach it.

# takes: volumes
# choose B: 64 | 128 | 256
# choose OUT: 4 | 8 | 12
# choose SIZE: 2 | 3 | (1, 3, 3)
# choose HOW: stride=1 | stride=2 | stride=(1, 2, 2) | stride=2, padding=(0, 1, 1) | stride=2, output_padding=1
# choose BIASED: True | True | False
# epilogue: 0..2

# --- init ---
self.conv_transpose3d = nn.ConvTranspose3d(_IN_, _OUT_, _SIZE_, _HOW_, bias=_BIASED_)

# --- forward ---
x = self.conv_transpose3d(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def conv_transpose3d_gather_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, D, H, W, N, OD, OH, OW, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w,
                            KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0) // N
    channel = tl.program_id(0) % N
    voxels = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = voxels < OD * OH * OW
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(C):
        for d in tl.static_range(KD):
            for i in tl.static_range(KH):
                for j in tl.static_range(KW):
                    z = voxels // (OH * OW) + pad_d - d
                    y = voxels // OW % OH + pad_h - i
                    x = voxels % OW + pad_w - j
                    inside = mask & (z >= 0) & (z % stride_d == 0) & (z // stride_d < D)
                    inside = inside & (y >= 0) & (y % stride_h == 0) & (y // stride_h < H)
                    inside = inside & (x >= 0) & (x % stride_w == 0) & (x // stride_w < W)
                    plane = (batch * C + c) * D + z // stride_d
                    row = plane * H + y // stride_h
                    value = tl.load(x_ptr + row * W + x // stride_w, mask=inside, other=0.0)
                    sheet = (c * N + channel) * KD + d
                    tap = sheet * KH + i
                    weight = tl.load(w_ptr + tap * KW + j)
                    acc += value * weight
    if HAS_BIAS:
        acc += tl.load(b_ptr + channel)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (batch * N + channel) * OD * OH * OW + voxels, acc, mask=mask)


def conv_transpose3d_gather(x, conv):
    weight, bias = conv.weight, conv.bias
    (SD, SH, SW), (PD, PH, PW) = conv.stride, conv.padding
    B, C, D, H, W = x.shape
    _, N, KD, KH, KW = weight.shape
    OD = (D - 1) * SD - 2 * PD + KD + conv.output_padding[0]
    OH = (H - 1) * SH - 2 * PH + KH + conv.output_padding[1]
    OW = (W - 1) * SW - 2 * PW + KW + conv.output_padding[2]
    out = torch.empty((B, N, OD, OH, OW), device=x.device, dtype=x.dtype)
    grid = (B * N, triton.cdiv(OD * OH * OW, _B_))
    conv_transpose3d_gather_kernel[grid](x, weight, weight if bias is None else bias, out, C, D, H, W, N, OD, OH, OW, SD, SH, SW,
                                  PD, PH, PW, KD=KD, KH=KH, KW=KW, HAS_BIAS=bias is not None, BLOCK=_B_)
    return out

# --- call ---
x = conv_transpose3d_gather(x, self.conv_transpose3d)
