# A gather of rows; indices are int64 and data.
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 24)

    def forward(self, idx):
        return self.emb(idx) * 2.0


def get_inputs():
    return [torch.randint(0, 50, (6, 9))]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def lookup(idx, table, y, n, D: tl.constexpr, BD: tl.constexpr):
    pid = tl.program_id(0)
    token = tl.load(idx + pid)
    d = tl.arange(0, BD)
    tl.store(y + pid * D + d, tl.load(table + token * D + d, mask=d < D) * 2.0, mask=d < D)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 24)

    def forward(self, idx):
        y = torch.empty(*idx.shape, 24, device=idx.device, dtype=torch.float32)
        lookup[(idx.numel(),)](idx, self.emb.weight, y, idx.numel(), D=24, BD=32)
        return y
