"""Launches in interpret mode: each distinct specialisation becomes Triton IR for the targets asked for, then it
is interpreted.

The IR text goes to the trusted side, which has it lowered to machine code in a process that never runs candidate code.
"""

import functools
import operator
import types

import triton
from triton.backends.driver import DriverBase
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction, create_function_from_signature

from tritonforge_worker.hints import hint
from tritonforge_worker.targets import BACKENDS, TARGETS, context_of

PROPERTIES = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1980000,
    "mem_clock_rate": 2619000,
    "mem_bus_width": 5120,
}


def launch_grid(grid, bound):
    """A launch's grid as three sizes; `grid` may be a function of the bound arguments."""
    if grid is None:
        raise ValueError("no grid was given")
    if callable(grid):
        grid = grid(bound)
    grid = grid if isinstance(grid, (tuple, list)) else (grid,)
    if any(not hasattr(n, "__index__") for n in grid):
        raise TypeError(f"grid {grid} must have integer sizes: triton.cdiv(n, BLOCK) or //, not /")
    grid = tuple(operator.index(n) for n in grid)
    if not 1 <= len(grid) <= 3:
        raise ValueError(f"grid {grid} must have one to three sizes")
    grid = grid + (1,) * (3 - len(grid))
    if min(grid) < 0 or grid[0] > 2**31 - 1 or max(grid[1:]) > 65535:
        raise ValueError(f"grid {grid} is beyond what CUDA launches (2147483647, 65535, 65535)")
    return grid


class DriverOnPaper(DriverBase):
    """What candidate code may ask of the active driver; nothing is ever launched through it."""

    class utils:
        @staticmethod
        def get_device_properties(device):
            return dict(PROPERTIES)

    @classmethod
    def is_active(cls):
        return True

    def map_python_to_cpp_type(self, ty):
        return ty

    def get_current_target(self):
        return TARGETS["sm_90"]

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_device_capability(self, device=0):
        return (9, 0)

    def get_active_torch_device(self):
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self):
        import torch

        return torch.cuda

    def get_empty_cache_for_benchmark(self):
        import torch

        return torch.empty(1)

    def clear_cache(self, cache):
        pass

    def get_benchmarker(self):
        return lambda kernel_call, *, quantiles, **kwargs: [1.0, 1.0, 1.0]


every_config = Autotuner.prune_configs  # that the candidate's own pruning leaves


def prefer_config(configs):
    """Stands in for timing in interpret mode: the largest tile whose product stays within what any target's shared
    memory takes. Large tiles mean few programs, which is what interpretation costs. What is recorded as a plan has the
    others, too (plan/tunings.py)."""

    def tile(config):
        size = 1
        for name, value in config.kwargs.items():
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and value > 1
                and not name.upper().startswith("GROUP")
            ):
                size *= value
        return size * max(1, config.num_stages)

    fitting = [c for c in configs if tile(c) <= 131072]
    return [max(fitting, key=tile) if fitting else min(configs, key=tile)]


class Compiled:
    """What a launch or `kernel.warmup(...)` gives: something that is launched with every argument in order, as Triton's
    CompiledKernel is. Nothing was compiled for a device yet; launches may be sized by these figures all the same."""

    n_regs, n_spills, n_max_threads = 64, 0, 1024

    def __init__(self, kernel, bound, kwargs):
        self.kernel, self.bound = kernel, dict(bound)
        self.options = {name: value for name, value in kwargs.items() if name not in kernel.signature.parameters}
        self.metadata = types.SimpleNamespace(shared=1024, num_warps=kwargs.get("num_warps", 4))

    def _init_handles(self):
        pass

    def __getitem__(self, grid):
        def launch(*args, stream=None):
            given = {**self.bound, **dict(zip(self.kernel.arg_names, args)), **self.options}
            return self.kernel.run(grid=grid, warmup=False, **given)

        return launch


def lower_to_ir(kernel, name, args, kwargs):
    """(IR text, options) of one launch for one target; raises what the compiler raises."""
    backend = BACKENDS[name]
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, specialization, options = binder(*args, **kwargs)
    kwargs = dict(kwargs, debug=False)
    options, signature, constexprs, attrs = kernel._pack_args(backend, kwargs, bound, specialization, options)
    source = ASTSource(kernel, signature, constexprs, attrs)
    module = source.make_ir(
        TARGETS[name], options, backend.get_codegen_implementation(options), backend.get_module_map(), context_of(name)
    )
    return module.str_nodebug()


def first_line_of(kernel):
    skip = next((i for i, line in enumerate(kernel.raw_src) if line.lstrip().startswith("def ")), 0)
    return kernel.starting_line_number + skip


def homes_of(kernel):
    """The kernel and the @triton.jit functions beside it, by their source."""
    beside = [
        value
        for value in kernel.fn.__globals__.values()
        if isinstance(value, JITFunction) and value.fn.__module__ == kernel.fn.__module__
    ]
    return {function.src.strip(): function for function in [*beside, kernel]}


def readable(error, kernel):
    """Compiler text with the candidate's own line numbers: the innermost cause, and the innermost place of its own."""
    if not isinstance(error, CompilationError):
        return str(error).strip() + hint(str(error)), 0
    levels = [error]
    while isinstance(levels[-1].__cause__, CompilationError):
        levels.append(levels[-1].__cause__)
    inner, homes = levels[-1], homes_of(kernel)
    message, text = inner.error_message or str(inner.__cause__ or ""), str(inner)
    line, placed = 0, [level for level in levels if hasattr(level.node, "lineno")]
    at = next((level for level in reversed(placed) if (level.src or "").strip() in homes), None)
    if placed:
        shown = at or placed[-1]
        where = f"in a function that kernel {kernel.__name__} calls"
        if at is not None:
            home = homes[at.src.strip()]
            line = first_line_of(home) + at.node.lineno - 1
            called = f"{home.__name__}, which kernel {kernel.__name__} calls"
            where = f"line {line} of " + (f"kernel {kernel.__name__}" if home is kernel else called)
        excerpt = (shown.src or "").split("\n")[max(0, shown.node.lineno - 3) : shown.node.lineno]
        text = "\n".join([where + ":", *excerpt, " " * shown.node.col_offset + "^", message])
    return text.strip() + hint(message), line


class Launches:
    """Installs itself as JITFunction.run and keeps what the trusted side is told about the launches of one child.

    What it keeps lives in closures and not in attributes: the candidate runs in this process, and attributes of an
    object that it can find are one assignment away. This is no wall (the trusted side believes none of it unchecked):
    it takes a reach into cells and frames to get at.
    """

    def __init__(self, send, execute, program_limit):
        seen, state, failed = {}, {"ghost": False, "launches": 0, "programs": 0}, []
        kernel_names, targets = [], list(TARGETS)

        def compile_for(kernel, args, kwargs):
            options = {
                k: v
                for k, v in kwargs.items()
                if k not in kernel.signature.parameters and isinstance(v, (int, str, bool))
            }
            for name in targets:
                try:
                    text = lower_to_ir(kernel, name, args, kwargs)
                except Exception as error:
                    if isinstance(error, (TypeError, KeyError)) and not isinstance(error, CompilationError):
                        raise  # a wrong call: arguments that the kernel does not have
                    message, line = readable(error, kernel)
                    send({"kernel": kernel.__name__, "target": name, "error": message, "line": line}, ())
                    if name == targets[0]:
                        error.tritonforge_compile_error = True
                        error.tritonforge_line = line
                        error.tritonforge_text = message
                        failed.append(message)
                        raise
                    continue
                send({"kernel": kernel.__name__, "target": name, "options": options}, (text.encode(),))

        def run(self, *args, grid, warmup, **kwargs):
            for hook in self.pre_run_hooks:
                hook(*args, **kwargs)
            binder_kwargs = dict(kwargs)
            backend = BACKENDS["sm_90"]
            binder = binders.get(id(self))
            if binder is None:
                binder = binders[id(self)] = create_function_from_signature(self.signature, self.params, backend)
            bound, specialization, options = binder(*args, **binder_kwargs)
            key = (id(self), str(specialization), str(options))
            outcome = seen.get(key)
            if outcome is None:
                alive.append(self)
                try:
                    compile_for(self, args, kwargs)
                    seen[key] = True
                except Exception as error:
                    seen[key] = error
                    raise
            elif outcome is not True:
                raise outcome
            compiled = Compiled(self, bound, kwargs)
            if warmup:
                return compiled
            grid = launch_grid(grid, bound)
            if state["ghost"]:
                return compiled
            programs = grid[0] * grid[1] * grid[2]
            state["programs"] += programs
            if state["programs"] > program_limit:
                raise RuntimeError(
                    f"{state['programs']} programs launched: more than interpret mode runs ({program_limit})"
                )
            constexprs = {p.name for p in self.params if p.is_constexpr}
            try:
                execute(self, dict(bound), constexprs, grid)
            except Exception as error:
                error.tritonforge_kernel = self.__name__
                failed.append(f"{type(error).__name__}: {error}")
                raise
            state["launches"] += 1
            kernel_names.append(self.__name__)
            return compiled

        def compile_targets(names):
            targets[:] = [name for name in TARGETS if name in names]

        self.compile_targets = compile_targets
        binders, alive = {}, []
        JITFunction.run = run
        self.begin = lambda ghost: (
            state.update(ghost=ghost, launches=0, programs=0),
            kernel_names.clear(),
            failed.clear(),
        )
        self.report = lambda: {
            "launches": state["launches"],
            "kernels": sorted(set(kernel_names)),
            "swallowed": [text[:500] for text in failed[:4]],
            "programs": state["programs"],
        }


@functools.cache
def install_driver():
    driver.set_active(DriverOnPaper())
    import triton.testing

    def fake_bench(fn, *args, quantiles=None, return_mode="mean", **kwargs):
        fn()
        return [1.0] * len(quantiles) if quantiles else 1.0

    triton.testing.do_bench = fake_bench
    triton.testing.do_bench_cudagraph = fake_bench
    Autotuner.prune_configs = lambda self, kwargs: prefer_config(every_config(self, kwargs))


@triton.jit
def _warm_kernel(x, y, n, SIZE: triton.language.constexpr):
    i = triton.language.program_id(0) * SIZE + triton.language.arange(0, SIZE)
    a = triton.language.load(x + i, mask=i < n, other=0.0)
    b = triton.language.sum(a, axis=0) + triton.language.max(a, axis=0)
    triton.language.store(y + i, triton.language.exp(a) * b + triton.language.sigmoid(a), mask=i < n)


def warm_up(execute):
    """First use of the compiler's lazy parts and of `execute`, so that each child inherits them ready."""
    import torch

    x = torch.zeros(16)
    for name in TARGETS:
        lower_to_ir(_warm_kernel, name, (x, x, 16), {"SIZE": 16})
    execute(_warm_kernel, {"x": x, "y": x.clone(), "n": 16, "SIZE": 16}, {"SIZE"}, (1, 1, 1))
