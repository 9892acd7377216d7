# Rows added up where their index says, by atomic additions into memory that was zeroed.

# takes: rows
# choose B: 64 | 128 | 256
# choose BUCKETS: 8 | 16 | 20

# --- inputs ---
bucket = torch.randint(0, _BUCKETS_, (batch_size,))

# --- forward ---
x = torch.zeros(_BUCKETS_, x.shape[1], device=x.device).index_add(0, bucket, x)

# --- kernel ---
@triton.jit
def scatter_add_kernel(x_ptr, bucket_ptr, out_ptr, n, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    bucket = tl.load(bucket_ptr + offsets // N, mask=mask, other=0)
    tl.atomic_add(out_ptr + bucket * N + offsets % N, x, mask=mask)


def scatter_add_rows(x, bucket):
    n, N = x.numel(), x.shape[1]
    out = torch.zeros(_BUCKETS_, N, device=x.device, dtype=x.dtype)
    scatter_add_kernel[(triton.cdiv(n, _B_),)](x, bucket, out, n, N, BLOCK=_B_)
    return out

# --- call ---
x = scatter_add_rows(x, bucket)
