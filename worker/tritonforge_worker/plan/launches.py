"""Launches as steps of the plan: the kernel's Triton IR, its grid and what its arguments are bound to."""

import torch
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction, create_function_from_signature

from tritonforge_worker import frontend
from tritonforge_worker.plan import host_descriptors, numbers
from tritonforge_worker.plan.numbers import Number
from tritonforge_worker.plan.places import whereabouts
from tritonforge_worker.plan.refusals import ADDRESS, HostPointer, NotAPlan
from tritonforge_worker.plan.tensors import RecordedTensor
from tritonforge_worker.plan.tunings import Tunings
from tritonforge_worker.targets import BACKENDS, REPLAYED, TARGETS, context_of

MAX_KERNELS, MAX_IR_BYTES = 256, 8 << 20


def lowered(kernel, target, args, kwargs, given):
    """Triton IR with source lines, as the compiler's front end makes it; `given`: the numbers that a replay reads, by
    the arguments' names."""
    backend = BACKENDS[target]
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, specialization, options = binder(*args, **kwargs)
    options, signature, constexprs, attrs = kernel._pack_args(
        backend, dict(kwargs, debug=False), bound, specialization, options
    )
    context = context_of(target)
    module = ASTSource(kernel, signature, constexprs, attrs).make_ir(
        TARGETS[target], options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    text = module.str() if target == REPLAYED else module.str_nodebug()
    if given:
        text = numbers.read_in_the_kernel(text, parameters(signature, {**bound, **given}))
    if any(map(host_descriptors.is_descriptor, bound.values())):
        text = host_descriptors.made_in_the_kernel(text)
    return text, signature


def argument(name, kind, value, host_memory=False):
    if isinstance(value, Number):
        return {"t": value.tensor._id}
    if isinstance(value, RecordedTensor):
        if whereabouts(value) == "cpu" and not host_memory:
            raise HostPointer(
                f"argument '{name}' is a tensor in the host's memory, which no kernel can reach: where it is made, "
                "device=x.device is missing, or in a constructor register_buffer, without which it stays there"
            )
        value._recording.forget_number(value)  # the kernel may write into it
        return {"t": value._id}
    if isinstance(value, torch.Tensor):
        raise NotAPlan(f"argument '{name}' is a tensor that was made outside of the recording")
    if value is None:
        return {"null": True}
    if isinstance(value, (bool, int)):
        return {"r": repr(float(value))} if kind.startswith(("fp", "bf")) else {"i": int(value)}
    if isinstance(value, float):
        return {"r": repr(value)}
    raise NotAPlan(f"argument '{name}' is a {type(value).__name__}")


def flat(name, kind, value):
    """(name, kind, value) of each number and pointer that the kernel gets: tuples and descriptors taken apart,
    constants left out."""
    if isinstance(kind, tuple):
        for k, item in enumerate(zip(kind, value)):
            yield from flat(f"{name}[{k}]", *item)
    elif host_descriptors.is_descriptor(value):
        base, sizes = host_descriptors.parts(name, value)
        yield from [(name, kind, base), *((name, "i64", int(size)) for size in sizes)]
    elif kind != "constexpr":
        yield name, kind, value


def parameters(signature, bound):
    """Those of the kernel's IR."""
    return [item for name, kind in signature.items() for item in flat(name, kind, bound[name])]


def check_are_arguments(kernel, given):
    for parameter in kernel.params:
        if parameter.is_constexpr and parameter.name in given:
            raise NotAPlan(
                f"argument '{parameter.name}' of kernel {kernel.__name__} is a tl.constexpr, and its value depends on "
                "data: a kernel takes such a number as a plain argument alone"
            )


class Launches:
    """Installs itself as JITFunction.run while a plan is recorded."""

    host_memory = False  # no kernel reaches it

    def __init__(self, recording, path, targets):
        seen, keep, self.kernels, self.texts, self.failed = {}, [], [], [], []
        self._tuner = Tunings(recording, self.failed)
        self.tunings = self._tuner.found
        binders, lowered_for = {}, [name for name in TARGETS if name == REPLAYED or name in targets]

        def compiled(kernel, args, kwargs, given, key):
            if key in seen:
                return seen[key]
            if len(self.kernels) >= MAX_KERNELS:
                raise NotAPlan(f"more than {MAX_KERNELS} kernels")
            options = {
                k: v
                for k, v in kwargs.items()
                if k not in kernel.signature.parameters and isinstance(v, (int, str, bool))
            }
            described, signature = {"name": kernel.__name__, "options": options, "ir": {}, "errors": {}}, None
            for target in lowered_for:
                try:
                    text, types = lowered(kernel, target, args, kwargs, given)
                except Exception as error:
                    if isinstance(error, (TypeError, KeyError)) and not isinstance(error, CompilationError):
                        raise  # a wrong call: arguments that the kernel does not have
                    message, line = frontend.readable(error, kernel)
                    described["errors"][target] = message
                    if target == REPLAYED:
                        error.tritonforge_compile_error, error.tritonforge_line, error.tritonforge_text = (
                            True,
                            line,
                            message,
                        )
                        self.failed.append((kernel.__name__, message))
                        raise
                    continue
                if len(text) > MAX_IR_BYTES:
                    raise NotAPlan(f"kernel {kernel.__name__}: Triton IR of {len(text)} bytes")
                described["ir"][target] = len(self.texts)
                self.texts.append(text.encode())
                signature = signature or types
            keep.append(kernel)
            self.kernels.append(described)
            seen[key] = (len(self.kernels) - 1, signature)
            return seen[key]

        def run(kernel, *args, grid, warmup, **kwargs):
            for hook in kernel.pre_run_hooks:
                hook(*args, **kwargs)
            args = tuple(own(a) for a in args)
            kwargs = {k: own(v) for k, v in kwargs.items()}
            given = {k: v for k, v in {**dict(zip(kernel.arg_names, args)), **kwargs}.items() if isinstance(v, Number)}
            check_are_arguments(kernel, given)
            args = tuple(map(numbers.stand_in, args))
            kwargs = {k: numbers.stand_in(v) for k, v in kwargs.items()}
            binder = binders.get(id(kernel))
            if binder is None:
                binder = binders[id(kernel)] = create_function_from_signature(
                    kernel.signature, kernel.params, BACKENDS[REPLAYED]
                )
            try:
                bound, specialization, options = binder(*args, **kwargs)
            except TypeError as error:  # Triton's name of what binds arguments says nothing to anybody
                raise TypeError(str(error).replace("dynamic_func()", f"kernel {kernel.__name__}")) from None
            key = id(kernel), str(specialization), str(options), *((k, v.tensor.dtype) for k, v in given.items())
            number, signature = compiled(kernel, args, kwargs, given, key)
            bound = {**bound, **given}
            compiled_kernel = frontend.Compiled(kernel, bound, kwargs)
            if warmup:
                return compiled_kernel
            grid = frontend.launch_grid(grid, bound)
            bindings = [argument(name, kind, own(value)) for name, kind, value in parameters(signature, bound)]
            recording.step({"launch": number, "grid": list(grid), "args": bindings})
            return compiled_kernel

        def own(value):
            if isinstance(value, tuple):
                items = map(own, value)
                return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
            if type(value) is int and recording.bases and recording.are_addresses(value):
                raise NotAPlan(ADDRESS)
            return (
                recording.constant(value)
                if isinstance(value, torch.Tensor) and not isinstance(value, RecordedTensor)
                else value
            )

        self._run = run

    def __enter__(self):
        self._before, self._tuning = JITFunction.run, self._tuner.installed()
        JITFunction.run = self._run
        self._tuning.__enter__()
        return self

    def __exit__(self, *exc):
        JITFunction.run = self._before
        return self._tuning.__exit__(*exc)
