"""Triton's interpreter with its faults mended, run over kernels that stay ordinary JITFunctions.

Differences from triton 3.6's triton/runtime/interpreter.py, each because it judged honest kernels wrongly:
- kernels are not decorated differently: the same JITFunction is lowered for real targets and interpreted here, and
  every patch of triton.language lasts only while a kernel runs;
- bf16 and fp8 values are held as float32 rounded to their type (upstream computes on raw bits: dot, add, casts);
- casts round to nearest even (upstream truncates fp32 -> bf16);
- run-time bounds of range, scalars in conditions and indices work with any numpy;
- libdevice and extern functions exist; float and bool scalars are tensors of their type, as in compiled code;
- names imported one by one (from triton.language import load) and closures work; candidate globals stay clean;
- custom reductions and scans are vectorised instead of one Python call per element;
- an address outside of the launch's tensors is an error that names the argument, not a crash of the process.
"""

import functools

from tritonforge_worker.interpreter.builder import Builder, OutOfBounds
from tritonforge_worker.interpreter.launch import Interpreter

__all__ = ["Builder", "OutOfBounds", "execute", "install"]


@functools.cache
def install():
    """The process's one. The first call changes triton.runtime.interpreter; the zygote makes it before it forks."""
    return Interpreter()


def execute(kernel, bound, constexprs, grid):
    """Runs every program of `grid` (three sizes) of a JITFunction over CPU tensors."""
    install().execute(kernel, bound, constexprs, grid)
