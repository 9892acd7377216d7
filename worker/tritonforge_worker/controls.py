"""What a problem's reference gives where it is not run as it is: the trusted side holds it against what it gives where
it is (src/evaluate/admission.h), to see whether right and wrong can be told apart."""

import copy

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tritonforge_worker import weights
from tritonforge_worker.modules import set_seed, tensors_in

# Makes another tensor of the same values; that it changes none says nothing.
_COPIES = {"clone", "_to_copy", "copy_", "view", "_unsafe_view", "reshape", "detach", "contiguous", "alias", "expand"}
_COPIES |= {"permute", "transpose", "t", "unsqueeze", "squeeze", "slice", "select", "lift_fresh"}


class Watch(TorchDispatchMode):
    """The operations of one forward: what made a tensor, and which left their first operand as it was."""

    def __init__(self):
        super().__init__()
        self.made, self.idle, self.alive = {}, [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        before = first.clone() if name.endswith("_") and first is not None else first
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            self.alive.append(tensor)
            self.made[id(tensor)] = (name, before)
        same = isinstance(out, torch.Tensor) and before is not None and out.shape == before.shape
        same = same and name not in _COPIES and out.dtype == before.dtype and out.is_floating_point()
        if same and name not in self.idle and torch.equal(out, before):
            self.idle.append(name)
        return out

    def before_last(self, output):
        """What the last operation that computes was given, in the output's form; None where it had another one."""
        at = output
        for _ in range(64):
            name, given = self.made.get(id(at), ("", None))
            if given is None:
                return None
            if name not in _COPIES:
                return given.reshape(output.shape) if given.numel() == output.numel() else None
            at = given
        return None


def cast(value, dtype):
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(cast(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: cast(item, dtype) for key, item in value.items()}
    return value


def run(model, inputs, seed):
    set_seed(seed)
    with torch.no_grad():
        return tensors_in(model(*inputs))


def like(outputs, expected):
    """The outputs with the expected ones' types; None where they have other shapes."""
    if outputs is None or len(outputs) != len(expected):
        return None
    if any(a.shape != b.shape for a, b in zip(outputs, expected)):
        return None
    return [a.to(b.dtype) for a, b in zip(outputs, expected)]


def probes(model, plain, make_inputs, forward_seed, around):
    """({name: outputs}, [operations that changed nothing]) of one trial; what cannot be run so is left out.

    `plain` is the module without weights.redrawn; `make_inputs(trial)` gives the inputs of trial 0 and of another one.
    """

    def fresh():  # what a forward changes in a module (running statistics) shall be the same for each
        return copy.deepcopy(model)

    with around():
        watch = Watch()
        with watch:
            expected = run(fresh(), make_inputs(0), forward_seed)
        last = [watch.before_last(output) for output in expected]
        found = {
            "given": tensors_in(make_inputs(0)),
            "expected": expected,
            "other": run(fresh(), make_inputs(1), forward_seed),
            "without_last": like(last, expected) if all(tensor is not None for tensor in last) else None,
        }
        watch.alive.clear()

        def attempt(name, prepared, dtype=None):
            try:
                inputs = make_inputs(0) if dtype is None else cast(make_inputs(0), dtype)
                found[name] = like(run(prepared(), inputs, forward_seed), expected)
            except Exception:  # an operation that is not there in this type
                pass

        attempt("float64", lambda: fresh().double(), torch.float64)
        attempt("half", lambda: fresh().bfloat16(), torch.bfloat16)
        if weights.state_of(model):
            attempt("default_weights", lambda: plain)
    return {name: outputs for name, outputs in found.items() if outputs is not None}, watch.idle
