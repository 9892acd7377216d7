"""CUDA code on a machine without one: 'cuda' means the CPU tensors of this process.

One torch function mode rewrites the device of every factory and conversion, and answers is_cuda and device as a GPU
tensor would, so that `assert x.is_cuda` and `torch.empty(..., device=x.device)` work. It also fills uninitialised
memory with a poison, and counts the torch operations that the code uses.
"""

import contextlib
import functools
import types

import torch
from torch.overrides import TorchFunctionMode

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
_is_cuda, _device = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__
EMPTIES = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty, torch.Tensor.new_empty_strided}
_to, _cuda = torch.Tensor.to, torch.Tensor.cuda
# fmt: off
_uncounted = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "view", "reshape", "stride",
              "size", "dim", "numel", "contiguous", "is_contiguous", "data_ptr", "element_size", "to", "cuda",
              "is_floating_point", "detach", "item", "requires_grad_", "unsqueeze", "squeeze", "transpose", "permute",
              "flatten", "expand", "storage_offset", "t", "zeros", "zeros_like", "ones", "ones_like", "full",
              "full_like", "new_zeros", "unflatten", "view_as", "cpu", "float", "half", "bfloat16", "as_tensor",
              "tensor", "is_complex", "untyped_storage", "narrow", "select", "chunk", "split", "unbind", "tolist",
              "__get__", "__set__", "__len__", "__getitem__", "ndimension", "nelement", "new_full", "get_device",
              "type", "clone", "is_cuda", "device", "copy_", "zero_", "fill_", "broadcast_to", "expand_as",
              "__format__", "__repr__", "__bool__", "__int__", "__float__", "__index__", "register_hook", "__hash__",
              "numpy", "is_pinned"}
# fmt: on


class NoSuchDevice(RuntimeError):
    """There is one GPU."""


def is_device(value):
    return isinstance(value, (str, torch.device, int)) and not isinstance(value, bool)


def device_of(value):
    """That of one GPU, or the host that stands for it."""
    device = torch.device("cuda", value) if isinstance(value, int) else torch.device(value)
    if device.type not in ("cuda", "cpu", "meta") or device.index not in (None, 0):
        raise NoSuchDevice(f"there is no device '{device}': the GPU is '{CUDA}', which is what x.device says")
    return device


def without_device(tensor, args, kwargs):
    """What tensor.to(*args, **kwargs) is asked for beside a device that is there; nothing where that is nothing."""
    args, kwargs = list(args), dict(kwargs)
    kwargs.pop("non_blocking", None)
    if args and (args[0] is None or is_device(args[0])):
        kwargs["device"] = args.pop(0)
    if is_device(device := kwargs.pop("device", None)) and device_of(device).type == "meta":
        given = dict(zip(("dtype", "non_blocking", "copy"), args)) | kwargs
        return [], {"dtype": tensor.dtype, **{k: v for k, v in given.items() if v is not None}, "device": "meta"}
    if args[:1] == [None]:  # as torch.nn.Module.to says it: to(device, None, False)
        args[0] = tensor.dtype
    if not args and not any(kwargs.values()):
        return [], {}
    return args, kwargs if args else {"dtype": tensor.dtype, **{k: v for k, v in kwargs.items() if v is not None}}


class CudaOnCpu(TorchFunctionMode):
    def __init__(self, poison=False):
        super().__init__()
        self.poison, self.counts = poison, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func == _is_cuda:
            return True
        if func == _device:
            return CUDA
        kwargs = dict(kwargs) if kwargs else {}
        name = getattr(func, "__name__", "")
        if func is _cuda:
            without_device(args[0], args[1:], kwargs)
            return args[0]
        if func is _to:
            rest, kwargs = without_device(args[0], args[1:], kwargs)
            if not rest and not kwargs:
                return args[0]
            args = (args[0], *rest)
        elif is_device(kwargs.get("device")) and device_of(kwargs["device"]).type == "cuda":
            kwargs["device"] = "cpu"
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        out = func(*args, **kwargs)
        if func in EMPTIES:
            if self.poison and isinstance(out, torch.Tensor):
                fill_with_poison(out)
        elif name not in _uncounted:
            self.counts[name] = self.counts.get(name, 0) + 1
        return out


def fill_with_poison(tensor):
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if tensor.is_floating_point():
            tensor.fill_(float("nan"))
        elif tensor.dtype == torch.bool:
            tensor.fill_(True)
        elif not tensor.is_complex():
            tensor.fill_(torch.iinfo(tensor.dtype).max - 1)


class Nothing:
    """A stream, event, graph pool or guard: accepts what they accept, does nothing."""

    cuda_stream, device, stream_id = 0, CUDA, 0

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False

    def elapsed_time(self, other):
        return 1.0

    def query(self):
        return True

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class Graph(Nothing):
    """A graph, or its capture. What is launched meanwhile is launched, and asks whether it is captured as on a GPU."""

    captures = 0

    def capture_begin(self, *args, **kwargs):
        Graph.captures += 1
        return self

    def capture_end(self, *args):
        Graph.captures -= 1
        return False

    __enter__, __exit__ = capture_begin, capture_end


class Guard(Nothing):
    """torch.cuda.device(...), set_device."""

    def __init__(self, device=None):
        if is_device(device):
            device_of(device)


def empty_strided_cuda(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype, device=CUDA)


def reinterpret_tensor(tensor, size, stride, offset_increment=0):
    """torch's own makes the view past whatever records calls."""
    return tensor.as_strided(size, stride, tensor.storage_offset() + offset_increment)


def install_default_device():
    """torch's own would have factories ask for a GPU that is not there."""
    default = [torch.device("cpu")]

    def choose(device):
        default[0] = torch.device("cpu") if device is None else device_of(device)

    torch.set_default_device, torch.get_default_device = choose, lambda: default[0]
    of_type = torch.set_default_tensor_type
    torch.set_default_tensor_type = lambda kind: choose(CUDA) if "cuda" in str(kind) else of_type(kind)


@functools.cache
def install():
    """Makes torch.cuda look like one H100 to Python code of this process and of its children."""
    properties = types.SimpleNamespace(
        name="NVIDIA H100 80GB HBM3",
        major=9,
        minor=0,
        total_memory=80 << 30,
        multi_processor_count=132,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        L2_cache_size=52428800,
        gcnArchName="",
    )
    cuda = torch.cuda
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "is_initialized": True,
        "get_device_name": properties.name,
        "get_device_capability": (9, 0),
        "get_device_properties": properties,
        "is_bf16_supported": True,
        "synchronize": None,
        "empty_cache": None,
        "init": None,
        "_lazy_init": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "reset_peak_memory_stats": None,
        "mem_get_info": (80 << 30, 80 << 30),
        "ipc_collect": None,
        "seed": None,
    }
    for name, value in answers.items():
        setattr(cuda, name, lambda *args, _value=value, **kwargs: _value)
    # Devices that never come would keep every seed for their coming, with the stack of who set it.
    torch.xpu.manual_seed_all = torch.mtia.manual_seed_all = lambda seed: None
    # A graph's launches are made where it is captured.
    for name in ("Stream", "Event", "device_of"):
        setattr(cuda, name, Nothing)
    cuda.CUDAGraph = cuda.graph = Graph
    cuda.is_current_stream_capturing = lambda: Graph.captures > 0
    torch.profiler.record_function = torch.autograd.profiler.record_function = Nothing
    cuda.device, cuda.set_device = Guard, lambda device: Guard(device) and None
    for name in ("current_stream", "default_stream", "stream"):
        setattr(cuda, name, lambda *args, **kwargs: Nothing())
    # Tells an allocator that a stream, which is no torch.Stream here, may still read what is freed.
    torch.Tensor.record_stream = lambda self, stream: None
    install_default_device()
    # What TorchInductor's own code calls on a GPU.
    cuda._DeviceGuard = Nothing
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    torch._C._dynamo.guards._empty_strided_cuda = empty_strided_cuda
    torch._C._dynamo.guards._reinterpret_tensor = reinterpret_tensor
    # Compiling is not what interpret mode measures: both sides run eagerly.
    torch.compile = lambda model=None, **kwargs: model if model is not None else (lambda m: m)
    # Only cuDNN wants an RNN's weights in one piece, and is_cuda says that it is there.
    torch.nn.RNNBase.flatten_parameters = lambda self: None


@contextlib.contextmanager
def own_code():
    """The worker's own torch calls, with the mode switched off."""
    with torch._C.DisableTorchFunction():
        yield
