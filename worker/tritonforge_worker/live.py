"""Mode live: the candidate (or the problem) on a real GPU, with its own CUDA context, timed by CUDA events.

The clock is read in the process that runs the candidate; the trusted side compares it with its own wall clock, picks
which timed outputs it wants to see after they were made, and says in the verdict's notes that this is what it did.
What is timed is the GPU's work, on every stream.
"""

import sys
import time
import typing

import torch
from torch.overrides import TorchFunctionMode
from triton.runtime.jit import JITFunction

from tritonforge_worker.cuda_on_cpu import EMPTIES, fill_with_poison
from tritonforge_worker.protocol import Encoder, by_key, decode, split_payload, to_tensor

FLUSH_BYTES = 256 << 20  # five times the L2 of an H100 or H200
FLUSHES = 3  # about 0.25 ms there, in which a launch from Python is queued
OTHER_STREAMS_MS = 0.03  # an idle device answers a synchronisation sooner
_sum, _synchronize, _event, _wait, _clock = (
    torch.sum,
    torch.cuda.synchronize,
    torch.cuda.Event,
    torch.cuda.Event.synchronize,
    time.perf_counter,
)


def warm_up():
    """Builds Triton's CUDA helper module once, in the parent: each child would run the C compiler for it.

    Calls no CUDA function.
    """
    from triton.backends.nvidia import driver

    try:
        driver.CudaUtils()  # one instance a process; children inherit it
    except Exception as error:
        print(f"Triton's cuda_utils is built by every child: {type(error).__name__}: {error}", file=sys.stderr)
        return
    driver.CudaUtils.__init__ = lambda self: None


def limit_memory(part):
    """From here on PyTorch's allocator gives this process at most `part` of the GPU's memory (0: no limit).

    It holds what a candidate asks of torch, by accident or not. It does not hold one that undoes it, or that calls the
    driver itself: a process on a GPU has no limit of its own that it could not pass.
    """
    if part > 0 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(part)


def synchronize():
    _synchronize()


class Around(TorchFunctionMode):
    """Nothing to pretend on a real GPU: factories without a device make CPU tensors, as in KernelBench.

    With `poison` memory that comes uninitialised holds no earlier call's result: the allocator gives the same block
    again, and what a call without launches leaves in it would be right.
    """

    counts: typing.ClassVar = {}

    def __init__(self, poison=False):
        super().__init__()
        self.poison = poison

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if self.poison and func in EMPTIES and isinstance(out, torch.Tensor):
            fill_with_poison(out)
        return out


class Launches:
    """Counts launches of the candidate's own kernels, and can leave them out (ghost replay).

    In closures, for the reason that frontend.Launches gives.
    """

    def __init__(self):
        original, state, names, failed = JITFunction.run, {"ghost": False, "launches": 0}, [], []

        def run(kernel, *args, grid, warmup, **kwargs):
            if state["ghost"] and not warmup:
                return None
            try:
                out = original(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            except Exception as error:
                error.tritonforge_kernel = kernel.__name__
                failed.append(f"{type(error).__name__}: {error}")
                raise
            if not warmup:
                state["launches"] += 1
                names.append(kernel.__name__)
            return out

        JITFunction.run = run
        self.compile_targets = lambda names: None  # the device that is there
        self.begin = lambda ghost: (state.update(ghost=ghost, launches=0), names.clear(), failed.clear())
        self.report = lambda: {
            "launches": state["launches"],
            "kernels": sorted(set(names)),
            "swallowed": [text[:500] for text in failed[:4]],
            "programs": 0,
        }


def own_inputs(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, list):
        return [own_inputs(item) for item in value]
    if isinstance(value, tuple):
        return tuple(own_inputs(item) for item in value)
    return value


def flush(memory, total):
    """Out of the L2 by reads, as plan mode does: behind writes a kernel's own time depends on what it asks to be kept
    (docs/results.md)."""
    for _ in range(FLUSHES):
        _sum(memory, 0, out=total)


class Timer:
    """Operations of a timing session: fill a pool of inputs, time calls on fresh copies, hand out chosen outputs."""

    def __init__(self, role):
        self.role, self.pool, self.kept, self.flush, self.compiled = role, [], [], None, None

    def add(self, request, payload):
        if "draw" in request:
            self.pool.append(self.role.drawn_inputs(request["seed"], request["draw"]))
            return self.role.channel.send({"added": len(self.pool)})
        tensors = [
            to_tensor(item, data).cuda()
            for item, data in zip(request["tensors"], split_payload(request["tensors"], payload))
        ]
        self.pool.append(decode(request["inputs"], tensors))
        self.role.channel.send({"added": len(self.pool)})

    def device(self, request, payload):
        properties = torch.cuda.get_device_properties(0)
        self.role.channel.send(
            {
                "device": properties.name,
                "uuid": str(getattr(properties, "uuid", "")),
                "memory": torch.cuda.mem_get_info()[0],
            }
        )

    def time(self, request, payload):
        from tritonforge_worker import errors

        times, self.kept = [], []
        model = self.compiled if request.get("compiled") else self.role.model
        launches = getattr(self.role, "launches", None)
        if launches is not None:
            launches.begin(False)  # the last trial may have been a ghost replay, which leaves every launch out
        try:
            if self.flush is None:
                self.flush = torch.zeros(FLUSH_BYTES // 4, device="cuda"), torch.empty((), device="cuda")
            with torch.no_grad():
                for index in request["order"]:
                    inputs = own_inputs(self.pool[index])
                    start, end = _event(enable_timing=True), _event(enable_timing=True)
                    _synchronize()
                    # The launches queue up behind the flush, so that the GPU's work is timed and not Python's
                    # (as triton.testing.do_bench does).
                    flush(*self.flush)
                    start.record()
                    output = model(*inputs)
                    end.record()
                    _wait(end)
                    waited = _clock()
                    _synchronize()
                    beside = (_clock() - waited) * 1e3  # ms that work on other streams outlasted the timed one
                    times.append(start.elapsed_time(end) + (beside if beside > OTHER_STREAMS_MS else 0))
                    self.kept.append(output)
                    del inputs
        except BaseException as error:
            text = errors.describe(error, "time", getattr(self.role, "path", ""), getattr(self.role, "source", ""))
            return self.role.channel.send({"failed": text, "stage": "time"})
        self.role.channel.send({"times": times, "nonce": request["nonce"]})

    def compile(self, request, payload):
        """torch.compile's version of a problem's module, made once; next to nothing is computed."""

        def compile():
            if self.compiled is not None:
                return
            from tritonforge_worker import compiled as torch_compile  # imports for seconds

            torch_compile.warm_up()
            compiled = torch_compile.Compiled(self.role.model)
            compiled.prepare(*self.pool[0])
            self.compiled = compiled

        self.with_compiled(compile)

    def warm(self, request, payload):
        """Its first calls: the second of each input is a warm one."""

        def warm():
            for inputs in self.pool * 2:
                self.compiled(*own_inputs(inputs))
            _synchronize()

        self.with_compiled(warm)

    def with_compiled(self, do):
        try:
            with torch.no_grad():
                do()
        except BaseException as error:
            self.compiled = None
            return self.role.channel.send({"unavailable": f"{type(error).__name__}: {error}"[:500]})
        self.role.channel.send({"compiled": True})

    def fetch(self, request, payload):
        encoder = Encoder()
        tree = encoder.value(by_key(self.kept[request["index"]]))
        self.kept = []
        self.role.channel.send({"fetched": True, "outputs": tree, "tensors": encoder.tensors}, encoder.payload)

    def clear(self, request, payload):
        """The end of a session: a reference's process is kept for the next candidate, its GPU memory is not."""
        self.pool, self.kept, self.flush = [], [], None
        torch.cuda.empty_cache()
        self.role.channel.send({"cleared": True})

    def enter_run_phase(self, request, payload):
        """Second seccomp filter: no new process from here on (the kernels are compiled)."""
        import ctypes

        library = ctypes.CDLL(request["library"])
        self.role.channel.send({"run_phase": library.tritonforge_deny_exec() == 0})


def operations(role):
    timer = Timer(role)
    return {
        "pool": timer.add,
        "clear": timer.clear,
        "time": timer.time,
        "fetch": timer.fetch,
        "device": timer.device,
        "compile": timer.compile,
        "warm": timer.warm,
        "run_phase": timer.enter_run_phase,
    }
