# torch for a product, a kernel for the Fourier transform behind it: a part of the work, of which torch has another call.
# handed: no plan has aten::_fft_r2c
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 64)

    def forward(self, x):
        return torch.fft.rfft(torch.sigmoid(self.fc(x))).abs()


def get_inputs():
    return [torch.randn(64, 16)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def spectrum(x, y, N: tl.constexpr, F: tl.constexpr, BF: tl.constexpr):
    row, n, f = tl.program_id(0), tl.arange(0, N), tl.arange(0, BF)
    v = tl.sigmoid(tl.load(x + row * N + n))
    angles = ((n[:, None] * f[None, :]) % N).to(tl.float32) * (6.283185307179586 / N)
    re, im = tl.sum(v[:, None] * tl.cos(angles), 0), tl.sum(v[:, None] * tl.sin(angles), 0)
    tl.store(y + row * F + f, tl.sqrt(re * re + im * im), mask=f < F)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 64)

    def forward(self, x):
        h = self.fc(x)
        y = torch.empty(h.shape[0], 33, device=x.device)
        spectrum[(h.shape[0],)](h, y, N=64, F=33, BF=64)
        return y
