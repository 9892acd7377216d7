# How many labels count is read by .item(), given to the kernel and divides a second loss.
# handed: how many labels are counted, and with it the shape of what the reference takes, depends on the data
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels, ignore_index=3), torch.logsumexp(logits, 1)[labels != 3].square().mean()


def get_inputs():
    labels = torch.randint(0, 40, (64,))
    labels[torch.randint(0, 64, (20,))] = 3
    return [torch.randn(64, 40), labels]


# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, losses, squares, counted, ignored, V, B: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    if label == ignored:
        tl.store(losses + row, 0.0)
        tl.store(squares + row, 0.0)
        return
    i = tl.arange(0, B)
    x = tl.load(logits + row * V + i, mask=i < V, other=-float("inf"))
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    tl.store(losses + row, (lse - tl.load(logits + row * V + label)) / counted)
    tl.store(squares + row, lse * lse)


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        rows, vocabulary = logits.shape
        counted = (labels != 3).sum().item()
        losses = torch.empty(rows, device=logits.device)
        squares = torch.empty_like(losses)
        B = triton.next_power_of_2(vocabulary)
        cross_entropy[(rows,)](logits, labels, losses, squares, counted, 3, vocabulary, B=B)
        return losses.sum(), squares.sum() / counted
