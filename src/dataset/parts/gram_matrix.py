# The Gram matrix of a sequence: products of its features, averaged over time.

# takes: sequences
# gives: end
# choose B: 16 | 32
# epilogue: 0..1
# bounds: -80..80

# --- forward ---
x = x.transpose(1, 2) @ x / x.shape[1]
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def gram_kernel(x_ptr, out_ptr, T, D, BLOCK: tl.constexpr):
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, T, BLOCK):
        time = start + tl.arange(0, BLOCK)
        left = tl.load(x_ptr + (batch * T + time[None, :]) * D + rows[:, None], mask=(time[None, :] < T) & (rows[:, None] < D), other=0.0)
        right = tl.load(x_ptr + (batch * T + time[:, None]) * D + cols[None, :], mask=(time[:, None] < T) & (cols[None, :] < D), other=0.0)
        acc += tl.dot(left, right, input_precision="ieee")
    acc = acc / T
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (batch * D + rows[:, None]) * D + cols[None, :], acc, mask=(rows[:, None] < D) & (cols[None, :] < D))


def gram_matrix(x):
    B, T, D = x.shape
    out = torch.empty((B, D, D), device=x.device, dtype=x.dtype)
    gram_kernel[(triton.cdiv(D, _B_), triton.cdiv(D, _B_), B)](x, out, T, D, BLOCK=_B_)
    return out

# --- call ---
x = gram_matrix(x)
