# Sequences to rows by a softmax over time of each step's product with a learned query: one program a sequence.

# takes: sequences
# gives: rows
# choose W: 2 | 4
# epilogue: 0..1

# --- init ---
self.query = nn.Parameter(torch.randn(_IN_) / _IN_ ** 0.5)

# --- forward ---
x = (torch.softmax(x @ self.query, dim=1)[:, :, None] * x).sum(1)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def attention_pool_kernel(x_ptr, query_ptr, out_ptr, T, D, TIME: tl.constexpr, WIDTH: tl.constexpr):
    batch = tl.program_id(0)
    time = tl.arange(0, TIME)
    dims = tl.arange(0, WIDTH)
    mask = (time[:, None] < T) & (dims[None, :] < D)
    x = tl.load(x_ptr + (batch * T + time[:, None]) * D + dims[None, :], mask=mask, other=0.0)
    query = tl.load(query_ptr + dims, mask=dims < D, other=0.0)
    scores = tl.where(time < T, tl.sum(x * query[None, :], axis=1), -float("inf"))
    weights = tl.exp(scores - tl.max(scores, axis=0))
    acc = tl.sum(x * (weights / tl.sum(weights, axis=0))[:, None], axis=0)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + batch * D + dims, acc, mask=dims < D)


def attention_pool(x, query):
    B, T, D = x.shape
    out = torch.empty((B, D), device=x.device, dtype=x.dtype)
    grid = (B,)
    attention_pool_kernel[grid](x, query, out, T, D, TIME=triton.next_power_of_2(T), WIDTH=triton.next_power_of_2(D), num_warps=_W_)
    return out

# --- call ---
x = attention_pool(x, self.query)
