"""Frames between a child and the trusted side: u32 header bytes, u64 payload bytes, JSON header, raw payload.

Tensors travel as raw bytes in the payload and are described in the header's "tensors"; values (init arguments,
outputs) are a JSON tree whose leaves name them: {"tensor": 3}. Nothing is ever pickled.
"""

import json
import struct

import torch

DTYPES = {
    str(d).removeprefix("torch."): d
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
NAMES = {d: name for name, d in DTYPES.items()}


class Unsupported(Exception):
    """A value that cannot cross the boundary (named in the message)."""


class Record(dict):
    """A configuration: its keys are attributes, too."""

    __getattr__ = dict.__getitem__


MAX_HEADER = 4 << 20  # kMaxHeader of src/evaluate/channel.h


class Channel:
    def __init__(self, sock):
        # The methods are bound once: code that patches the socket class later does not reach them.
        self._recv_into, self._sendall = sock.recv_into, sock.sendall
        self.fd = sock.fileno()

    def _read(self, size):
        buffer = bytearray(size)
        view, got = memoryview(buffer), 0
        while got < size:
            n = self._recv_into(view[got:])
            if n == 0:
                raise EOFError("the trusted side hung up")
            got += n
        return buffer

    def receive(self):
        head, body = struct.unpack("<IQ", self._read(12))
        return json.loads(self._read(head)), self._read(body)

    def send(self, header, payload=()):
        total = sum(len(part) for part in payload)
        text = json.dumps(header, ensure_ascii=False).encode("utf-8", "replace")  # of half a surrogate pair a '?'
        if len(text) > MAX_HEADER:
            raise Unsupported(
                f"value of {len(text) >> 20} MiB beside its tensors' data, at most {MAX_HEADER >> 20} MiB are read"
            )
        self._sendall(struct.pack("<IQ", len(text), total) + text)
        for part in payload:
            self._sendall(part)


def form_of(tensor):
    """(its dimensions from the outermost in memory, its dtype's name)."""
    if tensor.dtype not in NAMES:
        raise Unsupported(f"tensor of dtype {tensor.dtype}")
    if tensor.layout != torch.strided:
        raise Unsupported(f"tensor of layout {tensor.layout}")
    return sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d)), NAMES[tensor.dtype]


def tensor_bytes(tensor):
    """The bytes of a dense tensor in its own memory order, and its description."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    order, dtype = form_of(tensor)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    dense = tensor.permute(order)
    if not dense.is_contiguous():
        order, dense = list(range(tensor.dim())), tensor.contiguous()
    flat = dense.reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    described = {"dtype": dtype, "shape": list(tensor.shape), "order": order, "bytes": flat.numel()}
    return described, memoryview(flat.numpy()).cast("B") if flat.numel() else b""


class Encoder:
    """Collects the tensors of one frame."""

    def __init__(self):
        self.tensors, self.payload, self.objects = [], [], []

    def tensor(self, value):
        return tensor_bytes(value)

    def value(self, value, depth=0):
        if depth > 32:
            raise Unsupported("value nested deeper than 32")
        if value is None or isinstance(value, (bool, int, str)):
            return {"v": value}
        if isinstance(value, float):
            return {"float": repr(value)}
        if isinstance(value, torch.Tensor):
            described, data = self.tensor(value)
            described["requires_grad"] = bool(value.requires_grad)
            self.tensors.append(described)
            self.payload.append(data)
            self.objects.append(value)
            return {"tensor": len(self.tensors) - 1}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.value(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            kind = "record" if hasattr(type(value), "__getattr__") else "dict"
            return {kind: [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in value.items()]}
        raise Unsupported(f"value of type {type(value).__module__}.{type(value).__qualname__}")


def by_key(value, depth=0):
    """With its dictionaries in the order of their keys, whatever order they were filled in."""
    if depth > 32:
        return value
    if isinstance(value, dict):
        kind = Record if hasattr(type(value), "__getattr__") else dict
        return kind((key, by_key(value[key], depth + 1)) for key in sorted(value, key=repr))
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(by_key(item, depth + 1) for item in value)
    return value


class Forms(Encoder):
    """Without their data."""

    def tensor(self, value):
        order, dtype = form_of(value)
        return {"dtype": dtype, "shape": list(value.shape), "order": order, "bytes": 0}, b""


def forms_of(value):
    """{"value", "tensors"}; None of what no frame holds."""
    forms = Forms()
    try:
        return {"value": forms.value(by_key(value)), "tensors": forms.tensors}
    except Unsupported:
        return None


class Sampled(Encoder):
    """Flat, and of a tensor of more elements those at the fractions of 2^32 alone, in logical order."""

    def __init__(self, fractions):
        super().__init__()
        self.fractions = torch.tensor(fractions, dtype=torch.int64)

    def tensor(self, value):
        value = value.detach()
        if value.numel() <= self.fractions.numel():
            return super().tensor(value.reshape(-1).clone())
        places = (self.fractions * value.numel()) >> 32
        return super().tensor(torch.take(value, places.to(value.device)))


def split_payload(described, payload):
    parts, at, view = [], 0, memoryview(payload)
    for item in described:
        parts.append(view[at : at + item["bytes"]])
        at += item["bytes"]
    return parts


def to_tensor(item, data, into=None):
    """A tensor with the described shape and memory order; written into `into` where that has the same form."""
    dtype, shape, order = DTYPES[item["dtype"]], item["shape"], item["order"]
    flat = torch.frombuffer(bytearray(data), dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)
    if order:
        inverse = [0] * len(order)
        for position, dim in enumerate(order):
            inverse[dim] = position
        tensor = flat.reshape([shape[d] for d in order]).permute(inverse)
    else:
        tensor = flat.reshape(shape)
    if into is not None and into.dtype == dtype and into.shape == tensor.shape and into.stride() == tensor.stride():
        with torch.no_grad():
            into.copy_(tensor)
        return into
    return tensor


def decode(tree, tensors):
    ((kind, value),) = tree.items()
    if kind == "v":
        return value
    if kind == "float":
        return float(value)
    if kind == "tensor":
        return tensors[value]
    if kind == "dtype":
        return getattr(torch, value)
    if kind == "device":
        return torch.device(value)
    if kind == "list":
        return [decode(item, tensors) for item in value]
    if kind == "tuple":
        return tuple(decode(item, tensors) for item in value)
    if kind == "dict":
        return {decode(k, tensors): decode(v, tensors) for k, v in value}
    if kind == "record":
        return Record((decode(k, tensors), decode(v, tensors)) for k, v in value)
    raise Unsupported(f"encoded value of kind {kind}")
