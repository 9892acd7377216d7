"""Tensors that record what is done with them: shapes on torch's meta device, a number in the plan, no data.

To candidate code they look like tensors of one GPU. Each aten call that reaches the dispatcher becomes a step; what
asks for a tensor's data on the host ends the recording with NotAPlan.
"""

import contextlib
import functools
import warnings

import torch
from torch.utils._pytree import tree_map

from tritonforge_worker.cuda_on_cpu import CPU, CUDA, device_of, is_device, own_code, without_device
from tritonforge_worker.plan.numbers import Number
from tritonforge_worker.plan.places import is_elsewhere, is_on_host, place, place_of, whereabouts
from tritonforge_worker.plan.refusals import ADDRESS, OF_DATA, ON_HOST, NotAPlan, host, no_dtype


def check_device(device):
    """The GPU, or the host that stands for it; a tensor without data is no output of the problem's."""
    if is_device(device) and device_of(device).type == "meta":
        raise NotAPlan(f"a tensor on device '{device}'")


MAX_STEPS, MAX_CONSTANT_BYTES = 20000, 64 << 20
FIRST_ADDRESS = 0x700000000000
DTYPES = {
    d: str(d).removeprefix("torch.")
    for d in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
HOST = {
    **dict.fromkeys(("aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::is_nonzero"), ON_HOST),
    **dict.fromkeys(("aten::nonzero", "aten::unique_dim", "aten::_unique2", "aten::masked_select"), OF_DATA),
}
MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous",
    torch.preserve_format: "preserve",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}


def shown(name):
    return name.removeprefix("aten::")


class Recording:
    """The plan under way."""

    device = torch.device("meta")  # of what stands for the tensors

    def __init__(self):
        self.steps, self.values, self.kernels, self.constants = [], [], [], []
        self.by_tensor, self.constant_bytes, self.bases = {}, 0, 0
        self.numbers = {}  # of storages: what is known of a weight of one element, and of what is made of it
        self.alive, self.of = [], None
        self.memory = []  # of each value; kept, so that no other gets its place

    def value(self, meta, source=None):
        """A number for a new tensor; `source` says where it comes from, where no step makes it."""
        if meta.dtype not in DTYPES:
            raise no_dtype(meta.dtype)
        if meta.layout != torch.strided:
            raise NotAPlan(f"a tensor of layout {meta.layout}")
        self.values.append(
            {"dtype": DTYPES[meta.dtype], "shape": list(meta.shape), "stride": list(meta.stride()), **(source or {})}
        )
        self.memory.append(meta.untyped_storage())
        return len(self.values) - 1

    def check(self, name, kwargs):
        """What no plan may have."""
        if name in HOST:
            raise NotAPlan(f"{shown(name)}: {HOST[name]}")
        if not name.startswith("aten::"):
            raise NotAPlan(f"operator {name}")
        if kwargs.get("generator") is not None:
            raise NotAPlan(f"{shown(name)} with a generator")

    def encode(self, value):
        return encode(value)

    def no_tensor(self, name, result):
        if result is not None:
            raise NotAPlan(f"{shown(name)}: its result is a {type(result).__name__}")

    def step(self, step):
        if len(self.steps) >= MAX_STEPS:
            raise NotAPlan(f"more than {MAX_STEPS} steps")
        self.steps.append({**step, "of": list(self.of)} if self.of else step)

    @contextlib.contextmanager
    def configuration(self, tuning, number):
        """What is recorded meanwhile belongs to one configuration of an autotuned kernel (plan/tunings.py)."""
        self.of = (tuning, number)
        try:
            yield
        finally:
            self.of = None

    def tensor(self, meta, source=None):
        return RecordedTensor(meta, self, self.value(meta, source))

    def base_of(self, meta):
        """A made-up address of the tensor's storage: far apart, aligned as an allocator aligns."""
        storage = meta.untyped_storage()
        key = storage._cdata
        if key not in self.by_tensor:
            self.alive.append(storage)
            self.bases += 1
            self.by_tensor[key] = FIRST_ADDRESS + (self.bases << 32)
        return self.by_tensor[key]

    def are_addresses(self, numbers):
        """Of an integer or a tensor of such: made up by base_of."""
        return (numbers >= FIRST_ADDRESS) & (numbers < FIRST_ADDRESS + ((self.bases + 1) << 32))

    def check_holds_no_address(self, tensor):
        with own_code(), torch._C._DisableTorchDispatch():
            if self.bases and tensor.dtype == torch.int64 and self.are_addresses(tensor).any():
                raise NotAPlan(ADDRESS)

    def like(self, tensor):
        """What stands for a tensor of the model's."""
        with torch.inference_mode(tensor.is_inference()), torch._C._DisableTorchDispatch():
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    def know_number(self, tensor, number):
        """`number`: the data of a tensor of one element, or None."""
        storage = tensor._meta.untyped_storage()
        if number is not None and storage.nbytes() == number.element_size():
            self.numbers[storage._cdata] = storage, number  # its number stays its own while it is kept

    def forget_number(self, tensor):
        self.numbers.pop(tensor._meta.untyped_storage()._cdata, None)

    def item(self, tensor):
        """A number that is read when the plan is replayed, where it is not known: torch refuses more than one."""
        known = tensor.numel() != 1 or tensor.number() is not None
        return torch.Tensor.item(tensor) if known else Number.of(tensor)

    def known(self, tensor):
        """What was recorded of such a tensor; None of one that no call was given yet."""
        return next((rec for real, rec in self.constants if real is tensor), None)

    def constant(self, tensor):
        """A tensor that candidate code made from data of its own, where it has it."""
        if (found := self.known(tensor)) is not None:
            return found
        self.constant_bytes += tensor.numel() * tensor.element_size()
        if self.constant_bytes > MAX_CONSTANT_BYTES:
            raise NotAPlan(f"constants of more than {MAX_CONSTANT_BYTES >> 20} MiB")
        if not tensor.is_meta:
            self.check_holds_no_address(tensor)
        recorded = self.tensor(self.like(tensor), {"constant": sum(1 for v in self.values if "constant" in v)})
        self.constants.append((tensor, recorded))
        place(recorded._meta, whereabouts(tensor))
        return recorded


def encode(value):
    """An argument of an aten call as JSON."""
    if isinstance(value, RecordedTensor):
        return {"t": value._id}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"f": repr(value)}
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise no_dtype(value)
        return {"dtype": DTYPES[value]}
    if isinstance(value, torch.memory_format):
        return {"format": MEMORY_FORMATS[value]}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, (torch.device, torch.layout)):
        return None
    raise NotAPlan(f"an aten call with a {type(value).__name__}")


def recurrent(input, states, params, biases, layers, dropout, train, bidirectional, batch_first):
    """The forms of a recurrent layer's results: without data torch would make all calls of all its steps."""
    lstm = isinstance(states, (list, tuple))
    states = states if lstm else [states]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    rows = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    out = input.new_empty((*rows, width))
    return (out.transpose(0, 1) if batch_first else out, *(s.new_empty(s.shape) for s in states))


def bincount(places, weights=None, minlength=0):
    """As many counts as are asked for at least: the replay is refused where its data make them more."""
    if not places.is_meta:
        return torch.bincount(places, weights, minlength)
    if minlength == 0:
        raise NotAPlan(
            "bincount: the number of its results depends on data; minlength= as many as there can be says it"
        )
    summed = torch.float32 if weights is not None and weights.dtype == torch.float32 else torch.float64
    return places.new_empty(minlength, dtype=torch.int64 if weights is None else summed)


def attention(query, key, value, *rest, **options):
    """In the query's order of memory, as fused attention leaves it on a GPU and on a CPU."""
    out = torch.ops.aten.scaled_dot_product_attention.default(query, key, value, *rest, **options)
    if query.dim() != 4:
        return out
    order = sorted(range(4), key=lambda d: (-query.stride(d), d))
    return torch.empty_permuted(out.shape, order, dtype=out.dtype, device=out.device)


FORMS = {
    torch.ops.aten.scaled_dot_product_attention.default: attention,
    **dict.fromkeys(
        (
            torch.ops.aten.lstm.input,
            torch.ops.aten.gru.input,
            torch.ops.aten.rnn_tanh.input,
            torch.ops.aten.rnn_relu.input,
        ),
        recurrent,
    ),
    torch.ops.aten.bincount.default: bincount,
}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


def with_places(tensor, indices):
    """Indices whose masks of the code's own are the places that torch makes of them: it would ask for data."""
    out = []
    for mask in indices:
        if not isinstance(mask, torch.Tensor) or isinstance(mask, RecordedTensor) or mask.dtype != torch.bool:
            out.append(mask)
            continue
        indexed = tensor.shape[len(out) : len(out) + mask.dim()]
        if indexed != mask.shape:
            raise IndexError(f"a mask of shape {list(mask.shape)} for a tensor's {list(indexed)}")
        for places in mask.nonzero().unbind(1):
            place(places, whereabouts(mask))
            out.append(places)
    return out


def with_numbers(func, args, kwargs):
    """What torch makes of tensors of which the number is known; None of all others."""
    given = flat_tensors((args, kwargs))
    if not given or not is_function(func) or any(tensor.number() is None for tensor in given):
        return None
    plain = lambda x: x.number() if isinstance(x, RecordedTensor) else x  # noqa: E731
    where = {"device": CPU} if kwargs.get("device") is not None else {}
    with torch._C._DisableTorchDispatch():
        return func(*tree_map(plain, args), **{**tree_map(plain, kwargs), **where})


def written(func, args, kwargs):
    """The tensors that a call writes into."""
    for k, described in enumerate(func._schema.arguments):
        if described.alias_info is not None and described.alias_info.is_write:
            yield from flat_tensors([args[k] if k < len(args) else kwargs.get(described.name)])


def record(recording, func, args, kwargs):
    name = func._schema.name
    if name in HOST and (answer := with_numbers(func, args, kwargs or {})) is not None:
        return answer
    recording.check(name, kwargs or {})
    if name in INDEXED:
        args = (args[0], with_places(*args[:2]), *args[2:])

    def known(value):
        return (
            recording.constant(value)
            if isinstance(value, torch.Tensor) and not isinstance(value, RecordedTensor)
            else value
        )

    args, kwargs = tree_map(known, args), tree_map(known, dict(kwargs or {}))
    positions = [recording.encode(a) for a in args]
    named = {
        k: recording.encode(v)
        for k, v in kwargs.items()
        if k not in ("device", "layout", "pin_memory", "generator") and v is not None
    }
    where = {k: v for k, v in kwargs.items() if k != "pin_memory"}
    if any(a.name == "device" for a in func._schema.arguments):
        where["device"] = recording.device
    plain = lambda x: x._meta if isinstance(x, RecordedTensor) else x  # noqa: E731
    try:
        out = FORMS.get(func, func)(*tree_map(plain, args), **tree_map(plain, where))
    except NotImplementedError as error:
        why = OF_DATA if "nonzero" in str(error) else f"no shape without data ({str(error).splitlines()[0][:120]})"
        raise NotAPlan(f"{shown(name)}: {why}") from None
    given = flat_tensors((args, kwargs))
    # A result that is one of the arguments (in-place) keeps its number.
    own = {id(a._meta): a for a in given}
    on_host = stays_on_host(given, kwargs.get("device"))

    def wrapped(result):
        if not isinstance(result, torch.Tensor):
            return result
        if id(result) in own:
            return own[id(result)].after_it(result)
        if on_host:
            place(result, "pinned" if kwargs.get("pin_memory") else "cpu")
        return recording.tensor(result)

    results = tree_map(wrapped, out)
    for tensor in written(func, args, kwargs):
        recording.forget_number(tensor)
    if isinstance(results, RecordedTensor) and results.numel() == 1:
        recording.know_number(results, with_numbers(func, args, kwargs))
    listed = list(results) if isinstance(results, (list, tuple)) else [results]
    recording.step(
        {
            "aten": name,
            "overload": func._overloadname if func._overloadname != "default" else "",
            "args": positions,
            "kwargs": named,
            "out": [r._id if isinstance(r, RecordedTensor) else recording.no_tensor(name, r) for r in listed],
        }
    )
    return results


def stays_on_host(given, device):
    """Whether a call's results are where no kernel reaches them; of a factory (nothing given) Placed knows it."""
    asked = device_of(device).type if is_device(device) else "meta"
    return bool(given) and (asked == "cpu" or (asked == "meta" and all(a.is_cpu for a in given)))


def converted(tensor, moved, to, args, kwargs):
    """tensor.to(*args, **kwargs) where moved(tensor, device) takes it to a device and to() changes its type."""
    like = next((a for a in (*args[:1], kwargs.get("other")) if isinstance(a, torch.Tensor)), None)
    if like is not None:
        args, kwargs = (CPU if is_on_host(like) else CUDA, like.dtype), {}
    device = kwargs.get("device", args[0] if args else None)
    args, kwargs = without_device(tensor, args, kwargs)
    there = moved(tensor, device)
    return to(there, *args, **kwargs) if args or kwargs else there


def pinned(tensor, copied):
    """tensor.pin_memory(), where copied(tensor, place) makes one there."""
    if not is_on_host(tensor):
        raise RuntimeError("cannot pin a tensor on the GPU: only dense CPU tensors can be pinned")
    return tensor if whereabouts(tensor) == "pinned" else copied(tensor, "pinned")


def flat_tensors(value):
    if isinstance(value, RecordedTensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in flat_tensors(item)] if isinstance(value, (list, tuple)) else []


def is_numbers(value):
    """Whether it is a list of places or bools, or of such lists."""
    return isinstance(value, (list, tuple)) and all(type(v) in (int, bool) or is_numbers(v) for v in value)


@functools.cache
def lists_are_tuples():
    """Whether this torch takes a list of lists for a tuple of indices."""
    with warnings.catch_warnings(), torch._C._DisableTorchDispatch():
        warnings.simplefilter("ignore")
        return torch.zeros(2, 2, device="cpu")[[[0, 1], [0, 1]]].dim() == 1


def listed_places(tensor, index):
    """An index whose lists of places are tensors beside the one that is indexed. torch would make them without data."""

    def placed(value):
        if not is_numbers(value):
            return value
        places = torch.tensor(value, device="cpu")
        if places.dtype != torch.bool:
            places = places.to(torch.int64)
        place(places, tensor._place)
        return places

    if isinstance(index, list) and any(isinstance(i, (list, tuple)) for i in index) and lists_are_tuples():
        index = tuple(index)
    return tuple(map(placed, index)) if isinstance(index, tuple) else placed(index)


class RecordedTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, meta, recording, number):
        # In inference mode, too, a view of an ordinary tensor is ordinary and counts its versions with it.
        with torch.inference_mode(meta.is_inference()):
            self = torch.Tensor._make_wrapper_subclass(
                cls,
                meta.size(),
                strides=meta.stride(),
                storage_offset=meta.storage_offset(),
                dtype=meta.dtype,
                device=torch.device("meta"),
                requires_grad=False,
            )
        self._meta, self._recording, self._id = meta, recording, number
        return self

    def __init__(self, meta, recording, number):
        pass

    def after_it(self, meta):
        """Written in place. After t_, squeeze_ and the like it has another shape, which is another value's."""
        if self.takes_form(meta):
            self._id = self._recording.value(meta)
        return self

    def takes_form(self, meta):
        """Whether it had another one."""
        other = (self.shape, self.stride()) != (meta.shape, meta.stride())
        if other:
            with torch._C._DisableTorchDispatch():
                self.as_strided_(meta.shape, meta.stride(), meta.storage_offset())
        return other

    def alias(self):
        """What stays with this memory where this one is given another's."""
        return RecordedTensor(self._meta, self._recording, self._id)

    def take_memory(self, other):
        other = other if isinstance(other, RecordedTensor) else self._recording.constant(other)
        if other.dtype != self.dtype:
            host("assigns .data of another type")
        self.takes_form(other._meta)
        self._meta, self._id = other._meta, other._id

    def number(self):
        """Its data, where it is one element whose value is known."""
        _, number = self._recording.numbers.get(self._meta.untyped_storage()._cdata, (None, None))
        if number is None or number.dtype != self.dtype or self.numel() != 1:
            return None
        with torch._C._DisableTorchDispatch():
            return number.view(self.shape)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return record(flat_tensors((args, kwargs or {}))[0]._recording, func, args, kwargs)

    _place = property(lambda self: place_of(self._meta, "cuda"))
    is_cpu = property(lambda self: self._place != "cuda")
    is_cuda = property(lambda self: not self.is_cpu)
    device = property(lambda self: CPU if self.is_cpu else CUDA)
    is_meta = property(lambda self: False)
    data = property(alias, take_memory)

    def get_device(self):
        return -1 if self.is_cpu else 0

    def item(self):
        return self._recording.item(self)

    def data_ptr(self):
        return self._recording.base_of(self._meta) + self._meta.storage_offset() * self._meta.element_size()

    def moved(self, device):
        """This one where it is there already, else a copy."""
        check_device(device)
        return self.copied("cuda" if self.is_cpu else "cpu") if is_elsewhere(self, device) else self

    def copied(self, where):
        copy = self.clone()
        place(copy._meta, where)
        return copy

    def cuda(self, device=None, *args, **kwargs):
        return self.moved("cuda" if device is None else device)

    def cpu(self, *args, **kwargs):
        return self.moved("cpu")

    def to(self, *args, **kwargs):
        return converted(self, RecordedTensor.moved, torch.Tensor.to, args, kwargs)

    def type_as(self, other):
        return self.to(other)

    def new_tensor(self, data, *, dtype=None, device=None, **kwargs):
        """torch's own would copy memory that is not there."""
        where = {"dtype": dtype or self.dtype, "device": self.device if device is None else device}
        return data.clone().to(**where) if isinstance(data, torch.Tensor) else torch.tensor(data, **where)

    def type(self, dtype=None, non_blocking=False):
        return (
            "torch.cuda.FloatTensor"
            if dtype is None
            else self.to(dtype)
            if isinstance(dtype, torch.dtype)
            else host("calls .type() with a name")
        )

    def pin_memory(self, *args):
        return pinned(self, RecordedTensor.copied)

    def is_pinned(self, *args):
        return self._place == "pinned"

    def __getitem__(self, index):
        return super().__getitem__(listed_places(self, index))

    def __setitem__(self, index, value):
        super().__setitem__(listed_places(self, index), value)

    def __deepcopy__(self, memo):
        """A copy of its own memory: with other strides, or shared with another copy, a clone would not be one."""
        storage = self._meta.untyped_storage()
        shared = memo.setdefault(("memory of", storage._cdata), self) is not self
        if shared or storage.nbytes() != self.numel() * self.element_size():
            host("copies a view deeply")
        memo[id(self)] = copy = self.clone()
        if copy.stride() != self.stride():
            host("copies a view deeply")
        return copy.requires_grad_(self.requires_grad)

    def numpy(self, *args, **kwargs):
        host("calls .numpy()")

    __array__ = numpy

    def tolist(self):
        return host("calls .tolist()") if (number := self.number()) is None else number.tolist()

    def untyped_storage(self):
        return self._meta.untyped_storage()  # its size is asked for; it has no data

    def register_hook(self, hook):
        host("registers a hook")

    def __repr__(self, **kwargs):
        return f"tensor(..., size={tuple(self.shape)}, dtype={self.dtype}, device='cuda:0')"


def is_function(func):
    """Whether its results have memory of their own, of what it is given and nothing else."""
    schema = func._schema
    aliases = any(a.alias_info is not None for a in (*schema.arguments, *schema.returns))
    return schema.name.startswith("aten::") and not aliases and torch.Tag.nondeterministic_seeded not in func.tags
