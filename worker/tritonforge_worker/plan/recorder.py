"""Records one call of a module's forward as a plan (docs: plan/__init__.py, format: src/evaluate/plan/plan.h)."""

import contextlib
import math

import torch
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from tritonforge_worker import cuda_on_cpu
from tritonforge_worker.cuda_on_cpu import CPU, CUDA, device_of, is_device
from tritonforge_worker.modules import set_seed, tensors_in
from tritonforge_worker.plan.launches import Launches
from tritonforge_worker.plan.mode import Record
from tritonforge_worker.plan.places import is_elsewhere, is_on_host, place, storage_of, whereabouts
from tritonforge_worker.plan.refusals import HostPointer, NotAPlan
from tritonforge_worker.plan.tensors import (
    RecordedTensor,
    Recording,
    check_device,
    converted,
    flat_tensors,
    pinned,
)
from tritonforge_worker.protocol import by_key, forms_of, tensor_bytes
from tritonforge_worker.reduce import FACTORIES
from tritonforge_worker.targets import REPLAYED
from tritonforge_worker.weights import matched, state_of

MAX_PLAIN = 1 << 23  # elements of a call's inputs


class AsGpu(cuda_on_cpu.CudaOnCpu):
    """Function mode of the recording: CPU tensors of the code's own look like GPU tensors too."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if any(isinstance(a, RecordedTensor) for a in args):
            check_device((kwargs or {}).get("device"))
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


def is_plain(value):
    return isinstance(value, torch.Tensor) and not isinstance(value, RecordedTensor)


# What a tensor of the candidate's own answers as on a machine with a GPU; a recorded one does by itself.
TOLD = {
    torch.Tensor.is_cuda.__get__: lambda tensor: not is_on_host(tensor),
    torch.Tensor.is_cpu.__get__: is_on_host,
    torch.Tensor.device.__get__: lambda tensor: CPU if is_on_host(tensor) else CUDA,
    torch.Tensor.get_device: lambda tensor: -1 if is_on_host(tensor) else 0,
    torch.Tensor.is_pinned: lambda tensor, *device: whereabouts(tensor) == "pinned",
}


# Of which torch compares the devices of what they are given before a call is recorded.
COMPARING = {torch.quantile, torch.nanquantile, torch.Tensor.quantile, torch.Tensor.nanquantile}


class Placed(AsGpu):
    """That of a candidate, from its first line on. Its own tensors are on the GPU if it makes or moves them there, as
    Module.cuda() does with parameters and buffers: whatever else its constructor makes stays on the host."""

    def __init__(self, recording=None):
        super().__init__(False)
        self.recording = recording
        self.moves = {
            torch.Tensor.to: lambda tensor, *args, **kwargs: self.converted(tensor, args, kwargs),
            torch.Tensor.type_as: lambda tensor, other: self.converted(tensor, (other,), {}),
            torch.Tensor.cuda: lambda tensor, device=None, *_, **__: self.moved(tensor, device or CUDA),
            torch.Tensor.cpu: lambda tensor, *_, **__: self.moved(tensor, CPU),
            torch.Tensor.pin_memory: lambda tensor, *_: pinned(tensor, self.copied),
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch._C._nn._parse_to:  # with which Module.to reads what it is told; the device is the GPU's to it
            return func(*args, **kwargs)
        if args and is_plain(args[0]):
            if func in TOLD:
                return TOLD[func](*args, **kwargs)
            if func in self.moves:
                return self.moves[func](*args, **kwargs)
        return self.called(func, args, kwargs)

    def called(self, func, args, kwargs):
        """Its results are where they are asked for, else where what it is given is, else where factories make them."""
        if func in COMPARING and self.recording is not None:
            recorded = lambda value: self.recording.constant(value) if is_plain(value) else value  # noqa: E731
            args, kwargs = tree_map(recorded, args), tree_map(recorded, kwargs)
        among, device = [*args, *kwargs.values()], kwargs.get("device")
        # In a list of numbers, which may be long, a factory finds no tensor.
        given = [a for a in among if isinstance(a, torch.Tensor)] if func in FACTORIES else tensors_in(among)
        if is_device(device):
            on_host = device_of(device).type == "cpu"
        else:
            on_host = all(map(is_on_host, given)) if given else torch.get_default_device().type == "cpu"
        where = "cuda" if not on_host else "pinned" if kwargs.get("pin_memory") else "cpu"
        memory = {storage._cdata for storage in map(storage_of, given) if storage is not None}
        out = super().__torch_function__(func, (), args, kwargs)
        for tensor in tensors_in(out):
            if not is_plain(tensor):
                if not given or (is_device(device) and all(map(is_plain, given))):  # else tensors.record placed it
                    place(tensor._meta, where)
            elif (storage := storage_of(tensor)) is None or storage._cdata not in memory:
                place(tensor, where)
            elif tensor is out and is_elsewhere(tensor, device):  # torch.as_tensor
                return self.moved(tensor, device)
        return out

    def converted(self, tensor, args, kwargs):
        return converted(
            tensor, self.moved, lambda there, *a, **k: self.called(torch.Tensor.to, (there, *a), k), args, kwargs
        )

    def moved(self, tensor, device):
        """This one where it is there already, else a copy: of what was recorded of it, or of its data."""
        if not is_elsewhere(tensor, device):
            return tensor
        if self.recording is not None and (recorded := self.recording.known(tensor)) is not None:
            return recorded.moved(device)
        return self.copied(tensor, device_of(device).type)

    def copied(self, tensor, where):
        with torch._C._DisableTorchDispatch():
            copy = tensor if is_lazy(tensor) else tensor.clone()
        place(copy, where)
        return copy


def to_meta(described):
    """A meta tensor with a described tensor's shape and memory order."""
    shape, order = described["shape"], described["order"]
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return torch.empty_strided(shape, strides, dtype=getattr(torch, described["dtype"]), device="meta")


def parts_of(model):
    return model.modules() if isinstance(model, torch.nn.Module) else ()


def number_of(own, theirs, numbers, is_parameter):
    """What is known of a parameter or buffer of one element, whose name is `theirs` on the trusted side: None of a
    buffer without a counterpart, in which calls may count."""
    if own.is_meta:  # at the problem's own sizes; kernels are the same for every fraction, not for every size
        return torch.ones(own.shape, dtype=own.dtype) if own.is_floating_point() else None
    return numbers.get(theirs) if theirs else own if is_parameter else None


def replace_state(recording, model, known, numbers=None):
    """Parameters and buffers become recorded tensors: the trusted side's (weights.matched), else with their own data;
    the names of the latter. `numbers`: those of the trusted side that are of one element by name, for whose values a
    forward may ask."""
    own = state_of(model)
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    pairs = matched(shapes, {name: tuple(described["shape"]) for name, described in known.items()})
    seen = {}
    for name, tensor in own.items():
        theirs = pairs.get(name)
        own_data = tensor.detach()
        recorded = (
            recording.tensor(recording.like(own_data), {"weight": theirs}) if theirs else recording.constant(own_data)
        )
        recorded._is_param = isinstance(tensor, torch.nn.Parameter)  # by which Parameter knows its own
        if numbers is not None and tensor.numel() == 1:
            recording.know_number(recorded, number_of(own_data, theirs, numbers, recorded._is_param))
        if tensor.requires_grad and not tensor.is_inference():
            recorded.requires_grad_()  # without gradients, too, matmul folds a batch into one product for such a weight
        seen[id(tensor)] = recorded
    for part in parts_of(model):
        for table in (part._parameters, part._buffers):
            for key, tensor in list(table.items()):
                if tensor is not None:
                    table[key] = seen[id(tensor)]
    return [name for name in own if name not in pairs]


@contextlib.contextmanager
def own_state(model):
    """The model has its own parameters and buffers again afterwards."""
    tables = [table for part in parts_of(model) for table in (part._parameters, part._buffers)]
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, own in zip(tables, before):
            table.clear()
            table.update(own)


def tree_of(value, depth=0):
    if depth > 32:
        raise NotAPlan("forward returns a value nested deeper than 32")
    if isinstance(value, RecordedTensor):
        return {"tensor": value._id}
    if value is None or isinstance(value, (bool, int, str)):
        return {"v": value}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [tree_of(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[tree_of(k, depth + 1), tree_of(v, depth + 1)] for k, v in value.items()]}
    raise NotAPlan(f"forward returns a {type(value).__name__}")


class Discarded(Recording):
    """Of launches over plain tensors nothing is kept."""

    def constant(self, tensor):
        recorded = self.tensor(self.like(tensor))
        place(recorded._meta, whereabouts(tensor))
        return recorded


class Forward:
    """One call of forward over recorded inputs: `tree` and `described` are their structure and tensors, `known` the
    weights' by name, `launches` a language's Launches, `numbers` what replace_state is given."""

    def __init__(self, model, known, tree, described, decode, path, targets, launches, numbers=None):
        self.model, self.known, self.tree, self.described, self.decode = model, known, tree, described, decode
        self.numbers = numbers
        self.recording, self.own = Recording(), []
        self.launches = launches(self.recording, path, targets)

    def run(self):
        inputs = [self.recording.tensor(to_meta(item), {"input": k}) for k, item in enumerate(self.described)]
        with own_state(self.model):
            self.own = replace_state(self.recording, self.model, self.known, self.numbers)
            set_seed(0)
            with torch.no_grad(), self.launches, Placed(self.recording), Record(self.recording):
                return self.model(*self.decode(self.tree, inputs))


def as_plan(recording, outputs, inputs=0, own=(), kernels=(), texts=(), tunings=()):
    """(plan, payload)."""
    constants = [tensor_bytes(real) for real, _ in recording.constants]
    plan = {
        "values": recording.values,
        "steps": recording.steps,
        "kernels": list(kernels),
        "tunings": list(tunings),
        "outputs": tree_of(outputs),
        "inputs": inputs,
        "texts": [len(t) for t in texts],
        "constants": [d for d, _ in constants],
        "own_weights": list(own),
    }
    return plan, [*texts, *(data for _, data in constants)]


def plan_of(forward, host_outputs=True):
    """(plan, payload). Raises NotAPlan, and what the candidate's own code raises."""
    outputs, launches = forward.run(), forward.launches
    if is_plain(outputs):
        outputs = forward.recording.constant(outputs)
    if not host_outputs and any(tensor.is_cpu for tensor in flat_tensors(outputs)):
        raise HostPointer(
            "forward returns a tensor in the host's memory, where the reference's is on the GPU: a .cpu() too many, or "
            "where it is made device=x.device is missing"
        )
    made = launches.kernels, launches.texts, launches.tunings
    return as_plan(forward.recording, by_key(outputs), len(forward.described), forward.own, *made)


def record(model, known, tree, described, decode, path, targets=(REPLAYED,), launches=Launches):
    return plan_of(Forward(model, known, tree, described, decode, path, targets, launches))


def failure_on_cpu(model, tree, described, decode, path, targets, launches):
    """What the call raises over tensors of zeros on the CPU, where its kernels are compiled and not run; None also
    where these would be many."""
    if sum(math.prod(item["shape"]) for item in described) > MAX_PLAIN:
        return None
    tensors = [torch.zeros_like(to_meta(item), device="cpu") for item in described]
    for tensor in tensors:
        place(tensor, "cuda")
    try:
        set_seed(0)
        with torch.no_grad(), launches(Discarded(), path, targets), Placed():
            model(*decode(tree, tensors))
    except BaseException as error:
        return error
    return None


def inputs(make):
    """The list that `make` draws as the outputs of a plan without inputs: (plan, payload)."""
    recording = Recording()
    with torch.no_grad(), AsGpu(False), Record(recording):
        made = [recording.constant(x) if type(x) is torch.Tensor else x for x in make()]
    return as_plan(recording, made)


def kernels(model, tree, described, decode, path, targets, launches):
    """The kernels and which steps launch them, of a module without data, what it returns and has torch do, and what the
    compiler's front end says of those that it refuses."""
    known = {name: {"shape": list(tensor.shape)} for name, tensor in state_of(model).items()}
    forward = Forward(model, known, tree, described, decode, path, targets, launches, {})
    try:
        outputs = forward.run()
    except BaseException:
        if not forward.launches.failed:
            raise
        return kernels_of(forward)
    plan, texts = kernels_of(forward)
    plan["aten"] = asked_of_torch(forward.recording)
    plan["outputs"] = forms_of(outputs)
    plan["filled"] = [filled(forward.recording, tensor) for tensor in flat_tensors(by_key(outputs))]
    return plan, texts


def asked_of_torch(recording):
    """{operation: elements of the largest tensor that it is given or makes}."""
    most = {}
    for step in recording.steps:
        if "aten" in step:
            numbers = [*numbers_in(step["args"]), *numbers_in(list(step["kwargs"].values())), *step["out"]]
            sizes = [math.prod(recording.values[number]["shape"]) for number in numbers if number is not None]
            most[step["aten"]] = max(most.get(step["aten"], 0), *sizes, 0)
    return most


def numbers_in(encoded):
    """Of the tensors among a step's arguments."""
    if isinstance(encoded, list):
        return [number for item in encoded for number in numbers_in(item)]
    return [encoded["t"]] if isinstance(encoded, dict) and "t" in encoded else []


def filled(recording, tensor):
    """What a tensor's memory is filled by: {"bytes": that it shows, "launches": those that are given it, by their
    number, "others": aten calls that make it, and where it comes from else}."""
    places = (size for size, stride in zip(tensor.shape, tensor.stride()) if stride != 0)
    memory = tensor._meta.untyped_storage()._cdata
    own = {number for number, storage in enumerate(recording.memory) if storage._cdata == memory}
    launched = [step for step in recording.steps if "launch" in step]
    return {
        "bytes": math.prod(places) * tensor.element_size(),
        "launches": [k for k, step in enumerate(launched) if any(a.get("t") in own for a in step["args"])],
        "others": sorted(
            {step["aten"] for step in recording.steps if "aten" in step and own & set(step["out"])}
            | {key for number in own for key in recording.values[number] if key in ("input", "weight", "constant")}
        ),
    }


def kernels_of(forward):
    """Those that were launched until it ended: (plan, payload)."""
    launches, recorded = forward.launches, forward.recording.steps
    failed = [f"kernel {name}: {message}"[:2000] for name, message in launches.failed]
    plan = {
        "kernels": launches.kernels,
        "texts": [len(t) for t in launches.texts],
        "tunings": list(launches.tunings),
        "launches": [
            {k: step[k] for k in ("launch", "grid", "of") if k in step} for step in recorded if "launch" in step
        ],
        "failed": failed,
    }
    return plan, launches.texts
