"""Parameters and buffers: redrawn for the reference, found again in a candidate's module."""

import math

import torch

SPREAD = 0.2  # of the logarithm of the factors
GAIN = 6**0.5  # PyTorch's layers start with a third of the variance that keeps a signal's, which ReLU halves once more


def state_of(model):
    """Parameters and buffers by name, in order, shared tensors once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def redraw(model, seed, large):
    """Gives a fresh module weights that its initialisation alone does not tell: no bias or mean is zero, no scale one.

    Each element is multiplied by exp(SPREAD n - SPREAD^2), n normal, which keeps signs and the mean square; zeros of a
    tensor without any other value become SPREAD n. Buffers that hold more than one value (masks, tables) mean something
    and stay; so do integers. `large`: matrices and filters are enlarged by GAIN.
    """
    draw = torch.Generator().manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    buffers = {id(tensor) for tensor in model.buffers()}
    with torch.no_grad():
        for tensor in state_of(model).values():
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            first = tensor.flatten()[0]
            constant = bool((tensor == first).all())
            if id(tensor) in buffers and not constant:
                continue
            noise = SPREAD * torch.randn(tensor.shape, generator=draw)
            if constant and first == 0:
                tensor.copy_(noise)
            else:
                tensor.mul_(torch.exp(noise - SPREAD * SPREAD).to(tensor.dtype))
            if large and tensor.dim() >= 2:
                tensor.mul_(GAIN)


def matched(own, wanted):
    """{own name: wanted name} of two ordered {name: shape}: by name and shape, and of the rest those that stand in the
    same order with the same shapes (a candidate that calls its weights otherwise)."""
    pairs = {name: name for name, shape in own.items() if wanted.get(name) == shape}
    left = [(name, shape) for name, shape in wanted.items() if name not in pairs]
    for name, shape in own.items():
        if name in pairs:
            continue
        at = next((k for k, (_, other) in enumerate(left) if other == shape), None)
        if at is not None:
            pairs[name] = left[at][0]
            left = left[at + 1 :]
    return pairs


def all_finite(tensors):
    return all(bool(torch.isfinite(t).all()) for t in tensors if t.is_floating_point())


def wide(tensor, how, draw):
    """An input drawn wider: every row of its first dimension scaled by another factor of about 1/2 to 4; "signed" moves
    it around zero first. Integers and booleans stay."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return tensor
    rows = (tensor.shape[0],) + (1,) * (tensor.dim() - 1) if tensor.dim() else ()
    scale = torch.exp(0.5 * math.log(2) + math.log(2) * torch.randn(rows, generator=draw)).to(tensor.dtype)
    if how == "signed":
        tensor = tensor - tensor.mean()
    return tensor * scale
