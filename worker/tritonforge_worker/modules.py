"""Runs a source text as a module of its own, from a file in the job's folder (Triton reads kernels' source), and looks
into what it made."""

import linecache
import os
import random
import sys
import types

import numpy
import torch


def run_source(source, name, folder):
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as file:
        file.write(source)
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    return module


def set_seed(seed):
    torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)


def repeats_elements(tensor):
    """It has more elements than the memory that it shows (src/evaluate/plan/plan.h, repeats_of)."""
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) < tensor.numel()


def tensors_in(value):
    """The tensors in a tensor, or in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors_in(item)] if isinstance(value, (list, tuple)) else []
