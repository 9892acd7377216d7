# Rows by index, and what the index says of columns.

# takes: rows
# choose B: 256 | 512
# epilogue: 0..2

# family: gather_rows
# set INDEX: torch.randint(0, batch_size, (batch_size,))
# set TORCH: torch.index_select(x, 0, index)
# set SOURCE: tl.load(index_ptr + offsets // N, mask=mask, other=0) * N + offsets % N

# family: gather_columns
# set INDEX: torch.randint(0, _IN_, (batch_size, _IN_))
# set TORCH: torch.gather(x, 1, index)
# set SOURCE: (offsets // N) * N + tl.load(index_ptr + offsets, mask=mask, other=0)

# family: permute_columns
# set INDEX: torch.randperm(_IN_)
# set TORCH: x[:, index]
# set SOURCE: (offsets // N) * N + tl.load(index_ptr + offsets % N, mask=mask, other=0)

# --- inputs ---
index = _INDEX_

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, index_ptr, out_ptr, n, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    source = _SOURCE_
    x = tl.load(x_ptr + source, mask=mask, other=0.0)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


def _NAME_(x, index):
    out = torch.empty_like(x)
    n, N = x.numel(), x.shape[1]
    _KERNEL_[(triton.cdiv(n, _B_),)](x, index, out, n, N, BLOCK=_B_)
    return out

# --- call ---
x = _NAME_(x, index)
