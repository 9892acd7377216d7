# Self-attention in three kernels: scores, their softmax in place, and the mixture of the values.

# takes: sequences
# choose B: 16 | 32
# epilogue: 0..2

# --- forward ---
scores = torch.softmax(x @ x.transpose(1, 2) / x.shape[2] ** 0.5, dim=-1)
x = scores @ x
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def scores_kernel(x_ptr, scores_ptr, T, D, scale, BLOCK: tl.constexpr):
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, D, BLOCK):
        dims = start + tl.arange(0, BLOCK)
        q = tl.load(x_ptr + (batch * T + rows[:, None]) * D + dims[None, :], mask=(rows[:, None] < T) & (dims[None, :] < D), other=0.0)
        k = tl.load(x_ptr + (batch * T + cols[None, :]) * D + dims[:, None], mask=(cols[None, :] < T) & (dims[:, None] < D), other=0.0)
        acc += tl.dot(q, k, input_precision="ieee")
    mask = (rows[:, None] < T) & (cols[None, :] < T)
    tl.store(scores_ptr + (batch * T + rows[:, None]) * T + cols[None, :], acc * scale, mask=mask)


@triton.jit
def score_softmax_kernel(scores_ptr, T, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(scores_ptr + row * T + cols, mask=cols < T, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(scores_ptr + row * T + cols, x / tl.sum(x, axis=0), mask=cols < T)


@triton.jit
def mixture_kernel(scores_ptr, x_ptr, out_ptr, T, D, BLOCK: tl.constexpr):
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, T, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        weights = tl.load(scores_ptr + (batch * T + rows[:, None]) * T + keys[None, :], mask=(rows[:, None] < T) & (keys[None, :] < T), other=0.0)
        values = tl.load(x_ptr + (batch * T + keys[:, None]) * D + dims[None, :], mask=(keys[:, None] < T) & (dims[None, :] < D), other=0.0)
        acc += tl.dot(weights, values, input_precision="ieee")
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + (batch * T + rows[:, None]) * D + dims[None, :], acc, mask=(rows[:, None] < T) & (dims[None, :] < D))


def attention_steps(x):
    B, T, D = x.shape
    scores = torch.empty((B, T, T), device=x.device, dtype=torch.float32)
    out = torch.empty_like(x)
    scores_kernel[(triton.cdiv(T, _B_), triton.cdiv(T, _B_), B)](x, scores, T, D, D ** -0.5, BLOCK=_B_)
    score_softmax_kernel[(B * T,)](scores, T, BLOCK=triton.next_power_of_2(T))
    mixture_kernel[(triton.cdiv(T, _B_), triton.cdiv(D, _B_), B)](scores, x, out, T, D, BLOCK=_B_)
    return out

# --- call ---
x = attention_steps(x)
