# Convolution of each channel by a filter of its own: one program a block of pixels, the window unrolled.

# takes: images
# choose B: 64 | 128 | 256
# choose SIZE: 3 | 5
# epilogue: 0..2

# --- init ---
self.depthwise = nn.Conv2d(_IN_, _IN_, _SIZE_, padding=_SIZE_ // 2, groups=_IN_, bias=False)

# --- forward ---
x = self.depthwise(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def depthwise_conv2d_kernel(x_ptr, w_ptr, out_ptr, C, H, W, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    plane = offsets // (H * W)
    row = offsets % (H * W) // W
    col = offsets % W
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            y = row + i - SIZE // 2
            x = col + j - SIZE // 2
            inside = mask & (y >= 0) & (y < H) & (x >= 0) & (x < W)
            value = tl.load(x_ptr + plane * H * W + y * W + x, mask=inside, other=0.0)
            acc += value * tl.load(w_ptr + plane % C * SIZE * SIZE + i * SIZE + j, mask=mask, other=0.0)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + offsets, acc, mask=mask)


def depthwise_conv2d(x, weight):
    B, C, H, W = x.shape
    out = torch.empty_like(x)
    n = x.numel()
    depthwise_conv2d_kernel[(triton.cdiv(n, _B_),)](x, weight, out, C, H, W, n, SIZE=_SIZE_, BLOCK=_B_)
    return out

# --- call ---
x = depthwise_conv2d(x, self.depthwise.weight)
