// The families that are a whole kernel of their own: matrix products, transposes, losses, indexing, scans.
#include "dataset/special.h"

namespace tritonforge::dataset {

std::vector<Special> kernel_specials() {
  return {
      {.name = "matmul",
       .choices = {{"M", {"256", "512", "1000", "1024"}},
                   {"N", {"256", "384", "512", "1000"}},
                   {"K", {"128", "256", "300", "512"}},
                   {"BM", {"32", "64"}},
                   {"BN", {"32", "64"}},
                   {"BK", {"32"}}},
       .problem = R"py(class Model(nn.Module):
    """Matrix product of two matrices."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        out = torch.matmul(a, b)
{epilogue}        return out


M = {M}
K = {K}
N = {N}


def get_inputs():
    return [torch.randn(M, K) / K ** 0.5, torch.randn(K, N)]


def get_init_inputs():
    return []
)py",
       .solution =
           R"py(def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a_mask = (rows[:, None] < M) & (k + inner[None, :] < K)
        b_mask = (k + inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + (k + inner[:, None]) * N + cols[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
{epilogue}    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, {BM}), triton.cdiv(N, {BN}))
        matmul_kernel[grid](a, b, c, M, N, K, BLOCK_M={BM}, BLOCK_N={BN}, BLOCK_K={BK})
        return c
)py"},
      {.name = "bmm",
       .choices = {{"Z", {"8", "16", "20"}},
                   {"M", {"128", "200", "256"}},
                   {"N", {"128", "160", "256"}},
                   {"K", {"64", "100", "128"}},
                   {"BM", {"32", "64"}},
                   {"BN", {"32", "64"}},
                   {"BK", {"32"}}},
       .problem = R"py(class Model(nn.Module):
    """A batch of matrix products."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        out = torch.bmm(a, b)
{epilogue}        return out


batch_size = {Z}
M = {M}
K = {K}
N = {N}


def get_inputs():
    return [torch.randn(batch_size, M, K) / K ** 0.5, torch.randn(batch_size, K, N)]


def get_init_inputs():
    return []
)py",
       .solution =
           R"py(def bmm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a_mask = (rows[:, None] < M) & (k + inner[None, :] < K)
        b_mask = (k + inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + batch * M * K + rows[:, None] * K + k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + batch * K * N + (k + inner[:, None]) * N + cols[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
{epilogue}    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + batch * M * N + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        Z, M, K = a.shape
        N = b.shape[2]
        c = torch.empty((Z, M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, {BM}), triton.cdiv(N, {BN}), Z)
        bmm_kernel[grid](a, b, c, M, N, K, BLOCK_M={BM}, BLOCK_N={BN}, BLOCK_K={BK})
        return c
)py"},
      {.name = "linear",
       .choices = {{"M", {"128", "256", "500"}},
                   {"N", {"128", "256", "300", "512"}},
                   {"K", {"128", "200", "256"}},
                   {"BM", {"32", "64"}},
                   {"BN", {"32", "64"}},
                   {"BK", {"32"}}},
       .problem = R"py(class Model(nn.Module):
    """A linear layer and what follows it."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        out = self.linear(x)
{epilogue}        return out


batch_size = {M}
in_features = {K}
out_features = {N}


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
)py",
       .solution =
           R"py(def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x_mask = (rows[:, None] < M) & (k + inner[None, :] < K)
        w_mask = (k + inner[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * K + k + inner[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + k + inner[:, None], mask=w_mask, other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    acc += tl.load(b_ptr + cols, mask=cols < N, other=0.0)[None, :]
{epilogue}    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = x.contiguous()
        M, K = x.shape
        N = self.linear.out_features
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, {BM}), triton.cdiv(N, {BN}))
        linear_kernel[grid](x, self.linear.weight, self.linear.bias, out, M, N, K, BLOCK_M={BM}, BLOCK_N={BN}, BLOCK_K={BK})
        return out
)py"},
      {.name = "transpose",
       .choices = {{"M", {"512", "1000", "1024"}}, {"N", {"500", "768", "2048"}}, {"B", {"32", "64"}}},
       .problem = R"py(class Model(nn.Module):
    """Transposes a matrix into contiguous memory."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        out = x.t().contiguous()
{epilogue}        return out


rows = {M}
cols = {N}


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
)py",
       .solution = R"py(def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    acc = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
{epilogue}    tl.store(out_ptr + cols[:, None] * M + rows[None, :], tl.trans(acc), mask=tl.trans(mask))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        M, N = x.shape
        out = torch.empty((N, M), device=x.device, dtype=x.dtype)
        transpose_kernel[(triton.cdiv(M, {B}), triton.cdiv(N, {B}))](x, out, M, N, BLOCK={B})
        return out
)py"},
      {.name = "outer",
       .choices = {{"M", {"500", "1024", "2000"}}, {"N", {"512", "700", "1024"}}, {"B", {"32", "64"}}},
       .problem = R"py(class Model(nn.Module):
    """Outer product of two vectors."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        out = torch.outer(a, b)
{epilogue}        return out


M = {M}
N = {N}


def get_inputs():
    return [torch.rand(M) * 2 - 1, torch.randn(N)]


def get_init_inputs():
    return []
)py",
       .solution = R"py(def outer_kernel(a_ptr, b_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + rows, mask=rows < M, other=0.0)
    b = tl.load(b_ptr + cols, mask=cols < N, other=0.0)
    acc = a[:, None] * b[None, :]
{epilogue}    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        M, N = a.numel(), b.numel()
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        outer_kernel[(triton.cdiv(M, {B}), triton.cdiv(N, {B}))](a, b, out, M, N, BLOCK={B})
        return out
)py"},
      {.name = "layer_norm_affine",
       .choices = {{"M", {"256", "512", "1000"}}, {"N", {"256", "500", "768", "1024"}}, {"W", {"4", "8"}}},
       .problem = R"py(class Model(nn.Module):
    """Layer norm with learned scale and shift."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return F.layer_norm(x, (x.shape[1],), self.weight, self.bias)


batch_size = {M}
features = {N}


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features]
)py",
       .solution = R"py(def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, centred * tl.rsqrt(variance + 1e-5) * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty_like(x)
        layer_norm_kernel[(rows,)](x, self.weight, self.bias, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps={W})
        return out
)py"},
      {.name = "mse_loss",
       .choices = {{"M", {"256", "500", "1024"}}, {"N", {"512", "1000", "2048"}}, {"B", {"1024", "2048"}}},
       .problem = R"py(class Model(nn.Module):
    """Mean squared error."""

    def __init__(self):
        super().__init__()

    def forward(self, prediction, target):
        return F.mse_loss(prediction, target)


batch_size = {M}
features = {N}


def get_inputs():
    return [torch.randn(batch_size, features), torch.randn(batch_size, features)]


def get_init_inputs():
    return []
)py",
       .solution = R"py(def squared_error_kernel(p_ptr, t_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    p = tl.load(p_ptr + offsets, mask=mask, other=0.0)
    t = tl.load(t_ptr + offsets, mask=mask, other=0.0)
    tl.store(partial_ptr + pid, tl.sum((p - t) * (p - t), axis=0))


@triton.jit
def mean_kernel(partial_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(partial_ptr + offsets, mask=offsets < count, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, prediction, target):
        n = prediction.numel()
        count = triton.cdiv(n, {B})
        partial = torch.empty(count, device=prediction.device, dtype=torch.float32)
        out = torch.empty((), device=prediction.device, dtype=torch.float32)
        squared_error_kernel[(count,)](prediction, target, partial, n, BLOCK={B})
        mean_kernel[(1,)](partial, out, count, n, BLOCK=1024)
        return out
)py"},
      {.name = "cross_entropy",
       .choices = {{"M", {"256", "500", "1024"}}, {"N", {"100", "512", "1000"}}, {"W", {"4", "8"}}},
       .problem = R"py(class Model(nn.Module):
    """Cross entropy of each row."""

    def __init__(self):
        super().__init__()

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, reduction="none")


batch_size = {M}
classes = {N}


def get_inputs():
    return [torch.randn(batch_size, classes), torch.randint(0, classes, (batch_size,))]


def get_init_inputs():
    return []
)py",
       .solution = R"py(def cross_entropy_kernel(x_ptr, target_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-1e9)
    top = tl.max(x, axis=0)
    log_sum = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    target = tl.load(target_ptr + row)
    chosen = tl.load(x_ptr + row * n_cols + target)
    tl.store(out_ptr + row, log_sum - chosen)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, target):
        rows, n_cols = logits.shape
        out = torch.empty(rows, device=logits.device, dtype=logits.dtype)
        cross_entropy_kernel[(rows,)](logits, target, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps={W})
        return out
)py"},
      {.name = "embedding",
       .choices = {{"M", {"256", "1000", "2048"}}, {"N", {"64", "100", "256"}}, {"V", {"1000", "4096"}}},
       .problem = R"py(class Model(nn.Module):
    """Looks up rows of a table."""

    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, ids):
        out = F.embedding(ids, self.table)
{epilogue}        return out


tokens = {M}
vocabulary = {V}
features = {N}


def get_inputs():
    return [torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return [vocabulary, features]
)py",
       .solution = R"py(def gather_kernel(ids_ptr, table_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    source = tl.load(ids_ptr + row)
    acc = tl.load(table_ptr + source * n_cols + cols, mask=mask, other=0.0)
{epilogue}    tl.store(out_ptr + row * n_cols + cols, acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, ids):
        n_cols = self.table.shape[1]
        out = torch.empty((ids.numel(), n_cols), device=ids.device, dtype=self.table.dtype)
        gather_kernel[(ids.numel(),)](ids, self.table, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
)py"},
      {.name = "cumsum",
       .choices = {{"M", {"128", "256", "500"}}, {"N", {"100", "256", "500", "1024"}}, {"W", {"4", "8"}}},
       .problem = R"py(class Model(nn.Module):
    """Running sum along each row."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.cumsum(x, dim=1)


batch_size = {M}
features = {N}


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return []
)py",
       .solution = R"py(def cumsum_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, tl.cumsum(x, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty_like(x)
        cumsum_kernel[(rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps={W})
        return out
)py"},
      {.name = "argmax",
       .choices = {{"M", {"256", "500", "1024"}}, {"N", {"100", "256", "1000"}}, {"W", {"4", "8"}}},
       .problem = R"py(class Model(nn.Module):
    """Where the largest value of each row is."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.argmax(x, dim=1)


batch_size = {M}
features = {N}


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return []
)py",
       .solution = R"py(def argmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=torch.int64)
        argmax_kernel[(rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps={W})
        return out
)py"},
  };
}

}  // namespace tritonforge::dataset
