# Group norm of any number of axes, as nn's module: a program holds a whole group, which lies together.

# takes: rows images signals volumes
# choose GROUPS: 2 | 4
# choose W: 4 | 8
# epilogue: 0..2

# --- init ---
self.group_norm = nn.GroupNorm(_GROUPS_, _IN_)

# --- forward ---
x = self.group_norm(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def group_norm_module_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, size, pixels, groups, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < size
    x = tl.load(x_ptr + group * size + at, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / size
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / size
    channel = group % groups * (size // pixels) + at // pixels
    weight = tl.load(weight_ptr + channel, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=mask, other=0.0)
    x = centred / tl.sqrt(variance + eps) * weight + bias
    x = _EPILOGUE_(x)
    tl.store(out_ptr + group * size + at, x, mask=mask)


def group_norm_module(x, norm):
    B, C = x.shape[:2]
    pixels = x.numel() // (B * C)
    size = C // norm.num_groups * pixels
    out = torch.empty_like(x)
    group_norm_module_kernel[(B * norm.num_groups,)](x, norm.weight, norm.bias, out, size, pixels, norm.num_groups, norm.eps,
                                                     BLOCK=triton.next_power_of_2(size), num_warps=_W_)
    return out

# --- call ---
x = group_norm_module(x, self.group_norm)
