"""The dispatch mode of a recording: calls without a recorded tensor, and which calls are not taken apart."""

import functools

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tritonforge_worker.plan.places import is_on_host
from tritonforge_worker.plan.tensors import HOST, RecordedTensor, flat_tensors, is_function, record

COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
# Where an operator's own code for a GPU is looked for, in this order.
OWN_KEYS = (torch._C.DispatchKey.CUDA, torch._C.DispatchKey.CompositeExplicitAutograd, COMPOSITE)
FEW = 4096  # numbers of the code's own with which torch may compute on the host
OF_CONSTANTS = {"aten::lift_fresh", "aten::detach", "aten::detach_"}  # what torch.tensor() calls


def asks_of_types(func):
    """Whether torch answers it from numbers and types alone, as promote_types: there is no data in it."""
    schema = func._schema
    forms = [str(a.type) for a in (*schema.arguments, *schema.returns)]
    return schema.name.startswith("aten::") and bool(schema.returns) and not any("Tensor" in f for f in forms)


def own_key(func):
    """Where the code of an operator that was defined in Python is (torch.library); None for all others."""
    if func._schema.name not in torch.library._defs:
        return None
    return next((k for k in OWN_KEYS if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), k)), None)


def draws_a_mask(x, p, train):
    return train and 0 < p < 1  # otherwise its result is x or zeros


# Calls that torch makes up of others, on a GPU of other ones than here: fused attention and norms, cuDNN's layers, a
# mask drawn otherwise. They are recorded as they are called, since who replays them knows which device it has: what
# they are made of here is up to thirty times as slow there, and would be the time that a speedup is over.
AS_CALLED = {
    torch.ops.aten.dropout.default: draws_a_mask,
    **dict.fromkeys(
        (
            torch.ops.aten.scaled_dot_product_attention.default,
            torch.ops.aten.batch_norm.default,
            torch.ops.aten.rms_norm.default,
            torch.ops.aten.softmax.int,
            torch.ops.aten.log_softmax.int,
            torch.ops.aten.lstm.input,
            torch.ops.aten.gru.input,
            torch.ops.aten.rnn_tanh.input,
            torch.ops.aten.rnn_relu.input,
            torch.ops.aten.lstm_cell.default,
            torch.ops.aten.gru_cell.default,
        ),
        lambda *args, **kwargs: True,
    ),
}


def record_as_called(op, *args, **kwargs):
    """The kernel of such an operation for meta tensors, which recorded ones are to torch."""
    found = flat_tensors((args, kwargs))
    if not found or not AS_CALLED[op](*args, **kwargs):
        return op._op_dk(COMPOSITE, *args, **kwargs)
    with torch._C._DisableTorchDispatch():  # of what it is made of here nothing is recorded
        return record(found[0]._recording, op, args, kwargs)


library = torch.library.Library("aten", "IMPL", "AutogradMeta")  # as long as the process lives
for op in AS_CALLED:
    library.impl(op, functools.partial(record_as_called, op))


class Record(TorchDispatchMode):
    """Calls without a recorded tensor among their arguments: factories, and calls on the candidate's own constants."""

    def __init__(self, recording):
        super().__init__()
        self.recording = recording

    def is_on_host(self, tensor):
        """Whether its numbers are there, and are few: no recorded call has seen them, which could have changed them."""
        plain = isinstance(tensor, torch.Tensor) and not isinstance(tensor, RecordedTensor)
        return plain and is_on_host(tensor) and tensor.numel() <= FEW and self.recording.known(tensor) is None

    def of_few_numbers(self, func, args, kwargs):
        """What torch makes of few numbers of the code's own, for whose values it may ask; None of all else."""
        given = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        if not given or not is_function(func) or not all(map(self.is_on_host, given)):
            return None
        out = func(*args, **kwargs)
        return out if all(t.numel() <= FEW for t in tree_leaves(out) if isinstance(t, torch.Tensor)) else None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # The value of its own constants is known on the host.
        if func._schema.name in (*OF_CONSTANTS, *HOST) and not flat_tensors((args, kwargs)):
            return func(*args, **kwargs)
        if (known := self.of_few_numbers(func, args, kwargs)) is not None:
            return known
        if (key := own_key(func)) is not None:  # what is in it is recorded: its launches and aten calls
            with self:
                return func._op_dk(key, *args, **kwargs)
        if asks_of_types(func):
            return func(*args, **kwargs)
        if torch.is_inference_mode_enabled():
            # What autograd does elsewhere: detach_ itself; linear, einsum and the like by the calls in them.
            if func._schema.name == "aten::detach_":
                return args[0]
            as_called = func in AS_CALLED and AS_CALLED[func](*args, **kwargs)
            if not as_called and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE):
                with self:
                    return func._op_dk(COMPOSITE, *args, **kwargs)
        return record(self.recording, func, args, kwargs)
