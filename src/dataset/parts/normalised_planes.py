# Norms over the pixels (points, voxels) of a group of channels, which lie together: one program a group, in blocks.

# takes: images signals volumes
# choose B: 64 | 128 | 256
# epilogue: 0..2

# family: group_norm_fused
# choose GROUPS: 2 | 4
# set TORCH: F.group_norm(x, _GROUPS_, self.group_scale, self.group_shift)
# set COUNT: _GROUPS_
# set SCALE: group_scale
# set SHIFT: group_shift

# family: instance_norm_fused
# set TORCH: F.instance_norm(x, weight=self.plane_scale, bias=self.plane_shift)
# set COUNT: x.shape[1]
# set SCALE: plane_scale
# set SHIFT: plane_shift

# --- init ---
self._SCALE_ = nn.Parameter(torch.rand(_IN_) + 0.5)
self._SHIFT_ = nn.Parameter(torch.randn(_IN_))

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, scale_ptr, shift_ptr, out_ptr, size, groups, pixels, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + group * size + at, mask=at < size, other=0.0)
    mean = tl.sum(total, axis=0) / size
    spread = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + group * size + at, mask=at < size, other=0.0) - mean
        spread += tl.where(at < size, x * x, 0.0)
    factor = 1 / tl.sqrt(tl.sum(spread, axis=0) / size + eps)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < size
        channel = group % groups * (size // pixels) + at // pixels
        x = (tl.load(x_ptr + group * size + at, mask=mask, other=0.0) - mean) * factor
        x = x * tl.load(scale_ptr + channel, mask=mask, other=0.0) + tl.load(shift_ptr + channel, mask=mask, other=0.0)
        x = _EPILOGUE_(x)
        tl.store(out_ptr + group * size + at, x, mask=mask)


def _NAME_(x, scale, shift, groups):
    B, C = x.shape[:2]
    pixels = x.numel() // (B * C)
    out = torch.empty_like(x)
    _KERNEL_[(B * groups,)](x, scale, shift, out, C // groups * pixels, groups, pixels, 1e-5, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, self._SCALE_, self._SHIFT_, _COUNT_)
