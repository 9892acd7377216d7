# What is left of each row goes through calls of torch that few kernels have: of so few numbers they are no work.
# on a gpu: torch_does_the_work, since its calls on few numbers take longer there than the kernels do
import torch
import torch.nn as nn


def ending(s, t):
    pairs = torch.outer(s, t)
    y = torch.logaddexp(s, t) + torch.logaddexp2(s, t) + torch.sinc(s) + torch.special.i0(s) + torch.special.i1(t)
    y = y + torch.special.entr(t.abs()) + torch.special.xlog1py(s, t.abs()) + torch.special.erfcx(s)
    y = y + torch.special.log_ndtr(s) + torch.special.ndtri(torch.sigmoid(s)) + torch.special.i0e(t)
    y = y + torch.special.i1e(s) + torch.nansum(pairs, 1) + torch.nanmean(pairs, 0) + torch.trace(pairs)
    y = y + torch.isin(torch.arange(64, device=s.device), torch.tensor([3, 5, 8], device=s.device))
    return y + torch.signbit(s) + torch.hann_window(64, device=s.device) * torch.vdot(s, t)


class Model(nn.Module):
    def forward(self, x):
        y = torch.tanh(x) * torch.sigmoid(x)
        return ending(y.mean(1), y.amax(1))


def get_inputs():
    return [torch.randn(64, 2048)]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_and_most(x, s, t, N: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * N + tl.arange(0, N))
    y = (2 * tl.sigmoid(2 * v) - 1) * tl.sigmoid(v)
    tl.store(s + row, tl.sum(y) / N)
    tl.store(t + row, tl.max(y))


class ModelNew(nn.Module):
    def forward(self, x):
        s, t = torch.empty(64, device=x.device), torch.empty(64, device=x.device)
        mean_and_most[(64,)](x, s, t, x.shape[1])
        pairs = torch.outer(s, t)
        y = torch.logaddexp(s, t) + torch.logaddexp2(s, t) + torch.sinc(s) + torch.special.i0(s) + torch.special.i1(t)
        y = y + torch.special.entr(t.abs()) + torch.special.xlog1py(s, t.abs()) + torch.special.erfcx(s)
        y = y + torch.special.log_ndtr(s) + torch.special.ndtri(torch.sigmoid(s)) + torch.special.i0e(t)
        y = y + torch.special.i1e(s) + torch.nansum(pairs, 1) + torch.nanmean(pairs, 0) + torch.trace(pairs)
        y = y + torch.isin(torch.arange(64, device=s.device), torch.tensor([3, 5, 8], device=s.device))
        return y + torch.signbit(s) + torch.hann_window(64, device=s.device) * torch.vdot(s, t)
