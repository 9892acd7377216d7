# Embedding: one program a row of the result.

# order: 9
# epilogue: 0..2
# choose M: 256 | 1000 | 2048
# choose N: 64 | 100 | 256
# choose V: 1000 | 4096

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Looks up rows of a table."""

    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, ids):
        out = F.embedding(ids, self.table)
        out = _EPILOGUE_(out)
        return out


tokens = _M_
vocabulary = _V_
features = _N_


def get_inputs():
    return [torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return [vocabulary, features]


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_kernel(ids_ptr, table_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    source = tl.load(ids_ptr + row)
    acc = tl.load(table_ptr + source * n_cols + cols, mask=mask, other=0.0)
    acc = _EPILOGUE_(acc)
    tl.store(out_ptr + row * n_cols + cols, acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, ids):
        n_cols = self.table.shape[1]
        out = torch.empty((ids.numel(), n_cols), device=ids.device, dtype=self.table.dtype)
        gather_kernel[(ids.numel(),)](ids, self.table, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
