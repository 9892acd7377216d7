"""Kernels that come as source text: what a candidate is handed for one, and its launches as steps of the plan.

Nothing is compiled where the candidate is recorded. The text goes into the plan, and the trusted side has it compiled
in a process of its own (lowering.py)."""

import ctypes

import torch

from tritonforge_worker import frontend
from tritonforge_worker.plan.launches import MAX_KERNELS, argument
from tritonforge_worker.plan.refusals import NotAPlan
from tritonforge_worker.plan.tensors import RecordedTensor

MAX_SOURCE_BYTES = 1 << 20
_recording = []  # the Launches of the forward that is recorded, where one is


class CompileError(Exception):
    """What a compiler says of a source."""


def checked_flags(flags, known):
    """Compiler options of a candidate's, each of which must begin with one of `known`."""
    for flag in flags:
        if not any(flag == k or (k.endswith(("=", "-D")) and flag.startswith(k)) for k in known):
            raise CompileError(f"option '{flag}' is not taken (known: {', '.join(known)})")
    return list(flags)


def options_of(options):
    """A launch's options as a candidate's process sent them: (block, bytes of shared memory, flags)."""
    block, shared, flags = options.get("block"), options.get("shared", 0), options.get("flags", [])
    if not (isinstance(block, list) and len(block) == 3 and all(type(n) is int and 1 <= n <= 1024 for n in block)):
        raise CompileError(f"a block of {block} threads")
    if type(shared) is not int or not 0 <= shared <= 1 << 20:
        raise CompileError(f"{shared} bytes of shared memory")
    if not (isinstance(flags, list) and len(flags) <= 64 and all(isinstance(f, str) and "\0" not in f for f in flags)):
        raise CompileError("options that are no texts")
    return block, shared, flags


def sizes(value, what):
    value = tuple(int(n) for n in (value if isinstance(value, (tuple, list)) else (value,)))
    if not 1 <= len(value) <= 3:
        raise ValueError(f"{what} {value} must have one to three sizes")
    return [*value, *(1,) * (3 - len(value))]


def number(value):
    """A Python number from what stands for one: torch.compile_kernel's callers wrap them in ctypes and numpy types."""
    if isinstance(value, ctypes._SimpleCData):
        value = value.value
    elif not isinstance(value, (bool, int, float, torch.Tensor)) and hasattr(value, "item"):
        value = value.item()
    return value


class Kernel:
    """One kernel of a source. Subclasses give it the call of their language."""

    def __init__(self, source, name, flags=()):
        if not isinstance(source, str) or not isinstance(name, str):
            raise TypeError("a kernel is made of its source and its name, two texts")
        if "\0" in source or len(source.encode()) > MAX_SOURCE_BYTES:
            raise ValueError(f"kernel {name}: its source holds a NUL, or more than {MAX_SOURCE_BYTES} bytes")
        self.source, self.name, self.flags = source, name, tuple(str(flag) for flag in flags)

    def launch(self, grid, block, args, shared=0):
        if not _recording:
            raise RuntimeError(f"kernel {self.name} is launched outside of forward")
        _recording[-1].launch(self, frontend.launch_grid(tuple(grid), None), sizes(block, "block"), args, int(shared))


class Launches:
    """Takes the launches of every Kernel while a plan is recorded."""

    tunings = ()
    host_memory = False  # a kernel reaches none of it

    def __init__(self, recording, path, targets):
        self.recording, self.targets = recording, targets
        self.kernels, self.texts, self.failed, self.seen = [], [], [], {}

    def launch(self, kernel, grid, block, args, shared):
        key = (kernel.source, kernel.name, kernel.flags, tuple(block), shared)
        if key not in self.seen:
            if len(self.kernels) >= MAX_KERNELS:
                raise NotAPlan(f"more than {MAX_KERNELS} kernels")
            if kernel.source.encode() not in self.texts:
                self.texts.append(kernel.source.encode())
            text = self.texts.index(kernel.source.encode())
            options = {"entry": kernel.name, "block": block, "shared": shared, "flags": list(kernel.flags)}
            described = {"name": kernel.name, "options": options, "errors": {}}
            self.kernels.append({**described, "ir": dict.fromkeys(self.targets, text)})
            self.seen[key] = len(self.kernels) - 1
        bindings = [argument(f"{i}", "", self.own(number(value)), self.host_memory) for i, value in enumerate(args)]
        self.recording.step({"launch": self.seen[key], "grid": list(grid), "args": bindings})

    def own(self, value):
        if isinstance(value, torch.Tensor) and not isinstance(value, RecordedTensor):
            return self.recording.constant(value)
        return value

    def __enter__(self):
        _recording.append(self)
        return self

    def __exit__(self, *exc):
        _recording.pop()
        return False
