"""Parameters and buffers: redrawn for the reference, found again in a candidate's module."""

import contextlib
import functools
import math

import torch

SPREAD = 0.2
GAIN = 6**0.5  # PyTorch's layers start with a third of the variance that keeps a signal's, which ReLU halves once more


def state_of(model):
    """Parameters and buffers by name, in order, shared tensors once."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def scatter(tensor, value, spread, generator=None):
    """Fills with `value` times exp(spread n), n normal; with spread n where it is zero. The draws are the same for any
    spread."""
    with torch.no_grad():
        noise = spread * torch.randn(tensor.shape, generator=generator)
        tensor.copy_(value * torch.exp(noise) if value else noise)
    return tensor


def first_call(trial):
    """Of a method that calls self.model: what the call leaves in buffers (a moving mean, the vectors of a power
    iteration) is gone afterwards. A replay begins with the weights as they were, and so does every other trial."""

    @functools.wraps(trial)
    def call(self, *args):
        parts = self.model.modules() if isinstance(self.model, torch.nn.Module) else ()
        kept = [
            (part._buffers, dict(part._buffers), {k: t.clone() for k, t in part._buffers.items() if t is not None})
            for part in parts
        ]
        result = trial(self, *args)
        with torch.no_grad():
            for table, own, values in kept:
                table.clear()
                table.update(own)
                for name, value in values.items():
                    if not torch.equal(own[name], value):  # one whose elements share memory cannot be written
                        own[name].copy_(value)
        return result

    return call


@contextlib.contextmanager
def redrawn(spread):
    """A module that is made within begins with no bias and no mean of zero and no scale of one, or a candidate could do
    without them: what PyTorch's layers fill with one value is scattered. From torch's own generator, so that reference
    and candidate, made from one seed, have the same, and what they derive from it, too."""
    init, norm = torch.nn.init, torch.nn.modules.batchnorm._NormBase
    kept = init.zeros_, init.ones_, init.constant_, norm.reset_running_stats

    def reset_running_stats(self):
        kept[3](self)
        if self.track_running_stats:
            scatter(self.running_mean, 0, spread)
            scatter(self.running_var, 1, spread)

    init.zeros_ = lambda tensor: scatter(tensor, 0, spread)
    init.ones_ = lambda tensor: scatter(tensor, 1, spread)
    init.constant_ = lambda tensor, val: scatter(tensor, val, spread)
    norm.reset_running_stats = reset_running_stats
    try:
        yield
    finally:
        init.zeros_, init.ones_, init.constant_, norm.reset_running_stats = kept


def redraw(model, seed, large):
    """What is left of that: parameters of one value that the module's own code made. `large`: matrices and filters are
    enlarged by GAIN. Candidates get these by name. Buffers of a module's own (masks, tables) mean something: they stay.
    """
    generator = torch.Generator().manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    with torch.no_grad():
        for tensor in model.parameters() if isinstance(model, torch.nn.Module) else ():
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            first = tensor.flatten()[0].item()
            if bool((tensor == first).all()):
                scatter(tensor, first, SPREAD, generator)
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


def wide(tensor, how, draw):
    """An input drawn wider: every row of its first dimension scaled by another factor of about 1/2 to 4; "signed" moves
    it around zero first. Zeros stay, of which a triangle or a mask may be made, and so do whole numbers that differ."""
    if tensor.numel() == 0 or tensor.is_complex():
        return tensor
    if not tensor.is_floating_point():
        return shorter(tensor, draw)
    rows = (tensor.shape[0],) + (1,) * (tensor.dim() - 1) if tensor.dim() else ()
    scale = torch.exp(0.5 * math.log(2) + math.log(2) * torch.randn(rows, generator=draw)).to(tensor.dtype)
    if how == "signed":
        tensor = torch.where(tensor == 0, tensor, tensor - tensor.mean())
    return tensor * scale


def shorter(tensor, draw):
    """Whole numbers of which all are one above zero may be lengths that are the whole, or a mask that hides nothing:
    each from 1 to what it is; of ones, or of true alone, a quarter zeros. By operations that a plan may have, without
    a look at the values."""
    noise = torch.rand(tensor.shape, generator=draw).to(tensor.device)
    kept = noise < 0.75
    if tensor.dtype == torch.bool:
        return torch.where(tensor.all(), kept, tensor)
    drawn = torch.minimum((noise * tensor).to(tensor.dtype) + 1, tensor)
    one_value = (tensor == tensor.flatten()[0]).all() & (tensor > 0)
    return torch.where(one_value, torch.where(tensor == 1, kept.to(tensor.dtype), drawn), tensor)
