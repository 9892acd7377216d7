"""What of triton.language changes while a kernel is interpreted, and changes back after it."""

import inspect

import triton.language as tl
import triton.runtime.interpreter as upstream
from triton.language.extra import libdevice as libdevice_stubs
from triton.language.extra.cuda import libdevice as libdevice_cuda
from triton.runtime.jit import JITFunction

from tritonforge_worker.interpreter.numbers import np_dtype, scalar_of, wide
from tritonforge_worker.interpreter.reductions import Reduction, Scan


def mend_upstream():
    """For the life of the process: upstream's own operations hold wide types as float32 too."""
    validate = upstream._validate_np_data_size
    upstream._get_np_dtype = np_dtype
    upstream._validate_np_data_size = lambda array, dtype: wide(scalar_of(dtype)) or validate(array, dtype)


def boolean(self):
    data = self.handle.data
    return bool(data.item()) if data.size == 1 else True


def reduce(input, axis, combine_fn, keep_dims=False, **kw):
    return Reduction(axis, combine_fn, keep_dims).apply(input)


def scan(input, axis, combine_fn, reverse=False, **kw):
    return Scan(axis, combine_fn, reverse).apply(input)


class Patches:
    """(object, name, interpreted value, original) for all of triton.language; entered around each launch."""

    def __init__(self, builder, functions):
        scope = upstream._LangPatchScope()
        patch_builtins(scope, builder, functions)
        patch_libdevice(scope, builder)
        patch_tensor(scope)
        for lang in (tl, tl.core):
            scope.set_attr(lang, "reduce", reduce)
            scope.set_attr(lang, "associative_scan", scan)
            scope.set_attr(lang, "static_print", lambda *args, **kwargs: None)

        def call_device_function(self, *args, **kwargs):
            kwargs.pop("_semantic", None)
            return functions.interpreted(self.fn)(*args, **kwargs)

        scope.set_attr(JITFunction, "__call__", call_device_function)
        # Some are set twice: the first saw the original, and the last value stands.
        originals = {}
        for obj, name, original in scope._changes:
            originals.setdefault((id(obj), name), (obj, name, original))
        self.changes = []
        for obj, name, original in originals.values():
            new = obj.__dict__[name] if isinstance(obj, type) else getattr(obj, name)
            self.changes.append((obj, name, new, original))
        scope.restore()

    def replacements(self):
        """id of each function of the language -> its interpreted form."""
        return {
            id(original): new
            for _, _, new, original in self.changes
            if original is not upstream._MISSING and inspect.isfunction(original)
        }

    def __enter__(self):
        for obj, name, new, _ in self.changes:
            setattr(obj, name, new)

    def __exit__(self, *exc):
        for obj, name, _, original in self.changes:
            if original is upstream._MISSING:
                delattr(obj, name)
            else:
                setattr(obj, name, original)


def patch_builtins(scope, builder, functions):
    for lang in (tl, tl.core):
        upstream._patch_builtin(lang, builder, scope)
        upstream._patch_builtin(lang.tensor, builder, scope)
        if lang is tl:
            upstream._patch_builtin(lang.math, builder, scope)
        upstream._patch_lang_tensor(lang.tensor, scope)
        upstream._patch_lang_core(lang, scope)
        scope.set_attr(lang, "range", functions.range)
        scope.set_attr(lang, "static_range", functions.range)
    upstream._patch_builtin(tl.core.tensor_descriptor_base, builder, scope)


def patch_libdevice(scope, builder):
    upstream._patch_builtin(libdevice_cuda, builder, scope)
    for name, stub in vars(libdevice_stubs).copy().items():
        if not name.startswith("_") and hasattr(libdevice_cuda, name) and inspect.isfunction(stub):
            scope.set_attr(libdevice_stubs, name, getattr(libdevice_cuda, name))


def patch_tensor(scope):
    for name, member in list(vars(tl.tensor).items()):
        if isinstance(member, JITFunction):  # x.sum(), x.max(): bound like a method
            scope.set_attr(tl.tensor, name, lambda self, *args, _f=member, **kwargs: _f(self, *args, **kwargs))
    scope.set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
    scope.set_attr(tl.tensor, "__bool__", boolean)
