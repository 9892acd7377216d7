"""The GPUs that kernels can be compiled for, on paper: no such device is needed."""

import functools

from triton._C.libtriton import ir
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

REPLAYED = "sm_90"  # its IR is what is replayed on a CPU
ALL = {"sm_90": GPUTarget("cuda", 90, 32), "gfx942": GPUTarget("hip", "gfx942", 64)}
# Those that this Triton has a backend for; without REPLAYED's there is nothing to do.
TARGETS = {
    name: target
    for name, target in ALL.items()
    if name == REPLAYED or any(backend.compiler.supports_target(target) for backend in backends.values())
}
BACKENDS = {name: make_backend(target) for name, target in TARGETS.items()}


def take_small_dots():
    """From now on the front end takes tl.dot over fewer than 16 terms, which sizes that were reduced may leave: at the
    problem's own it does not."""

    def with_small_dots(codegen):
        return lambda options: {**codegen(options), "min_dot_size": lambda *operands: (1, 1, 1)}

    for backend in BACKENDS.values():
        backend.get_codegen_implementation = with_small_dots(backend.get_codegen_implementation)


@functools.cache
def context_of(name):
    """MLIR's, with the target's dialects. Loading them takes longer than a small kernel's front end: a process makes
    one and its children inherit it."""
    context = ir.context()
    ir.load_dialects(context)
    BACKENDS[name].load_dialects(context)
    return context
