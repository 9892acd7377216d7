# Values by a condition: a mask that is given, or the place in the matrix.

# takes: rows
# choose B: 128 | 256 | 512
# choose SHARE: 0.1 | 0.2 | 0.3 | 0.5
# choose VALUE: -1.0 | 0.0 | 0.5 | 2.0
# epilogue: 0..2

# --- inputs ---
dropped = torch.rand(batch_size, _IN_) < _SHARE_

# --- forward ---
x = x.masked_fill(dropped, _VALUE_)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def masked_fill_kernel(x_ptr, dropped_ptr, out_ptr, n, value, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    dropped = tl.load(dropped_ptr + offsets, mask=mask, other=0)
    x = tl.where(dropped != 0, value, x)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def masked_fill(x, dropped):
    out = torch.empty_like(x)
    masked_fill_kernel[(triton.cdiv(x.numel(), _B_),)](x, dropped, out, x.numel(), _VALUE_, BLOCK=_B_)
    return out

# --- call ---
x = masked_fill(x, dropped)
