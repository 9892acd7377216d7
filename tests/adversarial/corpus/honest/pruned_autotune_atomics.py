# An autotuner with a prune function, a key, heuristics below it and a buffer that is zeroed before each configuration.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, index):
        return torch.zeros(20, x.shape[1], device=x.device).index_add_(0, index, x)


def get_inputs():
    return [torch.randn(300, 48), torch.randint(0, 20, (300,))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

def fitting(configs, named_args, **kwargs):
    return [c for c in configs if c.kwargs["BM"] <= named_args["M"]] or configs[:1]


@triton.autotune(
    configs=[triton.Config({"BM": bm}, num_warps=w) for bm in (16, 64, 1024) for w in (1, 4)],
    key=["M", "N"], reset_to_zero=["y"], prune_configs_by={"early_config_prune": fitting},
)
@triton.heuristics({"BN": lambda args: triton.next_power_of_2(args["N"])})
@triton.jit
def index_add(x, index, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    to = tl.load(index + m, mask=m < M, other=0)
    tl.atomic_add(y + to[:, None] * N + n[None, :], tl.load(x + m[:, None] * N + n[None, :], mask=mask), mask=mask,
                  sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, x, index):
        M, N = x.shape
        y = torch.zeros(20, N, device=x.device, dtype=x.dtype)
        index_add[lambda meta: (triton.cdiv(M, meta["BM"]),)](x, index, y, M, N)
        return y
