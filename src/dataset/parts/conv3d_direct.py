# Convolution of volumes straight from its definition: one program a block of voxels of one filter's output.

# takes: volumes
# place: first
# choose B: 64 | 128 | 256
# choose OUT: 4 | 8 | 12
# choose SIZE: 1 | 3 | 3 | (1, 3, 3) | (3, 1, 2)
# choose STRIDE: 1 | 1 | 2
# choose PADDING: 0 | 0 | 1
# choose BIASED: True | True | False
# epilogue: 0..2

# --- init ---
self.conv3d = nn.Conv3d(_IN_, _OUT_, _SIZE_, stride=_STRIDE_, padding=_PADDING_, bias=_BIASED_)

# --- forward ---
x = self.conv3d(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def conv3d_direct_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, D, H, W, N, OD, OH, OW, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w,
                         KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0) // N
    channel = tl.program_id(0) % N
    voxels = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = voxels < OD * OH * OW
    front = voxels // (OH * OW) * stride_d - pad_d
    top = voxels // OW % OH * stride_h - pad_h
    left = voxels % OW * stride_w - pad_w
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(C):
        for d in tl.static_range(KD):
            for i in tl.static_range(KH):
                for j in tl.static_range(KW):
                    z = front + d
                    y = top + i
                    x = left + j
                    inside = mask & (z >= 0) & (z < D) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
                    plane = (batch * C + c) * D + z
                    row = plane * H + y
                    value = tl.load(x_ptr + row * W + x, mask=inside, other=0.0)
                    sheet = (channel * C + c) * KD + d
                    tap = sheet * KH + i
                    weight = tl.load(w_ptr + tap * KW + j)
                    acc += value * weight
    if HAS_BIAS:
        acc += tl.load(b_ptr + channel)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (batch * N + channel) * OD * OH * OW + voxels, acc, mask=mask)


def conv3d_direct(x, conv):
    weight, bias = conv.weight, conv.bias
    (SD, SH, SW), (PD, PH, PW) = conv.stride, conv.padding
    B, C, D, H, W = x.shape
    N, _, KD, KH, KW = weight.shape
    OD = (D + 2 * PD - KD) // SD + 1
    OH = (H + 2 * PH - KH) // SH + 1
    OW = (W + 2 * PW - KW) // SW + 1
    out = torch.empty((B, N, OD, OH, OW), device=x.device, dtype=x.dtype)
    grid = (B * N, triton.cdiv(OD * OH * OW, _B_))
    conv3d_direct_kernel[grid](x, weight, weight if bias is None else bias, out, C, D, H, W, N, OD, OH, OW, SD, SH, SW,
                               PD, PH, PW, KD=KD, KH=KH, KW=KW, HAS_BIAS=bias is not None, BLOCK=_B_)
    return out

# --- call ---
x = conv3d_direct(x, self.conv3d)
