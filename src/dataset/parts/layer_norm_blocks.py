# Layer norm with learned scale and shift over rows that need not fit a block: sums of values and squares in one walk.

# takes: rows sequences
# choose B: 32 | 64 | 128
# epilogue: 0..2

# --- init ---
self.norm = nn.LayerNorm(_IN_)

# --- forward ---
x = self.norm(x)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, gain_ptr, shift_ptr, out_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n_cols
    variance = tl.sum(squares, axis=0) / n_cols - mean * mean
    scale = 1 / tl.sqrt(variance + eps)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
        gain = tl.load(gain_ptr + cols, mask=mask, other=0.0)
        shift = tl.load(shift_ptr + cols, mask=mask, other=0.0)
        x = (x - mean) * scale * gain + shift
        x = _EPILOGUE_(x)
        tl.store(out_ptr + row * n_cols + cols, x, mask=mask)


def layer_norm_blocks(x, gain, shift):
    n_cols = x.shape[-1]
    out = torch.empty_like(x)
    _KERNEL_[(x.numel() // n_cols,)](x, gain, shift, out, n_cols, 1e-5, BLOCK=_B_)
    return out

# --- call ---
x = layer_norm_blocks(x, self.norm.weight, self.norm.bias)
