"""One launch of a @triton.jit kernel as Triton IR text and argument bindings, and the C++ evaluator that runs it.

test_ir_*.py run the same kernel twice: the interpreter (mended by the worker) runs its Python, the evaluator the IR
that the compiler's front end makes of it. Exact operations must agree bit for bit (NaN with any NaN); where the C
library and numpy round differently the tolerance is a few units in the last place and is named at the test. No GPU, no
network, no server.

TRITONFORGE_IR_BESIDE=gpu runs the same tests with a GPU in the interpreter's place: what Triton compiles for it.
"""

import json
import os
import struct
import subprocess
import sys

import torch
import triton

ROOT = os.environ.get("TRITONFORGE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "worker"))
BINARY = os.environ.get("TRITONFORGE_BINARY", os.path.join(ROOT, "build", "tritonforge"))
IR_RUN = os.environ.get("TRITONFORGE_IR_RUN", os.path.join(os.path.dirname(BINARY), "tests", "ir_run"))
BESIDE_GPU = os.environ.get("TRITONFORGE_IR_BESIDE") == "gpu"

from triton._C.libtriton import ir
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import create_function_from_signature

from tritonforge_worker import interpreter
from tritonforge_worker.targets import BACKENDS, TARGETS

TARGET, BACKEND = TARGETS["sm_90"], BACKENDS["sm_90"]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
ALL = FLOATS + INTEGERS + [torch.uint8, torch.uint16, torch.uint32]


def lower(kernel, args, kwargs):
    """(IR text, [(name, type, value)] of the arguments that the kernel takes at run time)."""
    binder = create_function_from_signature(kernel.signature, kernel.params, BACKEND)
    bound, specialization, options = binder(*args, **kwargs)
    options, signature, constexprs, attrs = kernel._pack_args(
        BACKEND, dict(kwargs, debug=False), bound, specialization, options
    )
    context = ir.context()
    ir.load_dialects(context)
    BACKEND.load_dialects(context)
    module = ASTSource(kernel, signature, constexprs, attrs).make_ir(
        TARGET, options, BACKEND.get_codegen_implementation(options), BACKEND.get_module_map(), context
    )
    return module.str(), [(name, ty, bound[name]) for name, ty in signature.items() if ty != "constexpr"]


def raw(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


class Runner:
    """ir_run as a child: one request after the other."""

    def __init__(self):
        self.process = subprocess.Popen([IR_RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def request(self, header, payload):
        text = json.dumps(header).encode()
        self.process.stdin.write(struct.pack("<I", len(text)) + text + b"".join(payload))
        self.process.stdin.flush()
        (size,) = struct.unpack("<I", self.process.stdout.read(4))
        reply = json.loads(self.process.stdout.read(size))
        return reply, [self.process.stdout.read(len(part)) for part in payload]

    def launch(self, kernel, grid, args, kwargs, seed=0, uninitialised=()):
        """Runs the kernel over the contiguous tensors in `args`, in place; the reply's dictionary."""
        text, runtime = lower(kernel, args, kwargs)
        buffers, tensors, arguments = [], [], []
        for name, ty, value in runtime:
            if isinstance(value, torch.Tensor):
                buffers.append(
                    {
                        "name": name,
                        "bytes": value.numel() * value.element_size(),
                        "granule": value.element_size(),
                        "initialised": name not in uninitialised,
                    }
                )
                tensors.append(value)
                arguments.append({"buffer": len(buffers) - 1, "offset": 0})
            elif ty.startswith("fp") or ty == "bf16":
                arguments.append({"real": float(value)})
            else:
                arguments.append({"integer": int(value)})
        grid = tuple(grid) + (1,) * (3 - len(grid))
        reply, parts = self.request(
            {"ir": text, "grid": grid, "seed": seed, "buffers": buffers, "arguments": arguments},
            [raw(t) for t in tensors],
        )
        for tensor, part in zip(tensors, parts):
            if len(part):
                tensor.copy_(torch.frombuffer(bytearray(part), dtype=tensor.dtype).reshape(tensor.shape))
        return reply

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(timeout=120)


class OnGpu:
    """The GPU where a test expects the evaluator, which stands beside it for both()."""

    def __init__(self):
        self.evaluator = Runner()
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))

    def launch(self, kernel, grid, args, kwargs, seed=0, uninitialised=()):
        there = [a.cuda() if isinstance(a, torch.Tensor) else a for a in args]
        kernel[tuple(grid)](*there, **kwargs)
        for mine, theirs in zip(args, there):
            if isinstance(mine, torch.Tensor):
                mine.copy_(theirs)
        return {}

    def stop(self):
        return self.evaluator.stop()


def interpret(kernel, grid, args, kwargs):
    names = [p.name for p in kernel.params]
    bound = {**dict(zip(names, args)), **kwargs}
    constexprs = {p.name for p in kernel.params if p.is_constexpr}
    interpreter.execute(kernel, bound, constexprs, (*grid, *(1,) * (3 - len(grid))))


def both(runner, kernel, grid, args, seed=0, **kwargs):
    """Runs both on copies of the arguments: ([interpreter's or GPU's tensors], [evaluator's tensors], reply)."""
    copies = [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2)]
    if BESIDE_GPU:
        runner.launch(kernel, grid, copies[0], kwargs)
    else:
        interpret(kernel, grid, copies[0], kwargs)
    evaluator = runner.evaluator if BESIDE_GPU else runner
    reply = evaluator.launch(kernel, grid, copies[1], kwargs, seed=seed)
    assert "error" not in reply, reply
    expected, got = ([t for t in side if isinstance(t, torch.Tensor)] for side in copies)
    return expected, got, reply


def bits(tensor):
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(kind) if tensor.dtype != torch.bool else tensor


def agree(expected, got, exact=True, rtol=0.0, atol=0.0):
    for index, (e, g) in enumerate(zip(expected, got)):
        if e.is_floating_point():
            e32, g32 = (e.double(), g.double())
            nan = torch.isnan(e32)
            assert torch.equal(nan, torch.isnan(g32)), (
                index,
                e32[nan != torch.isnan(g32)],
                g32[nan != torch.isnan(g32)],
            )
            if exact:
                wrong = (bits(e) != bits(g)) & ~nan
                assert not wrong.any(), (index, e[wrong][:5], g[wrong][:5], wrong.nonzero()[:5])
            else:
                torch.testing.assert_close(g32, e32, rtol=rtol, atol=atol, equal_nan=True)
        else:
            wrong = e != g
            assert not wrong.any(), (index, e[wrong][:5], g[wrong][:5], wrong.nonzero()[:5])


def float_edges(dtype, n=128):
    torch.manual_seed(1)
    info = torch.finfo(dtype)
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        float("inf"),
        float("-inf"),
        float("nan"),
        info.max,
        -info.max,
        info.tiny,
        -info.tiny,
        info.tiny / 2,
        info.tiny / 8,
        0.5,
        1.5,
        2.5,
        -2.5,
        info.eps,
        1 + info.eps,
        3.14159,
        88.0,
        -88.0,
        65504.0,
        1e-3,
    ]
    values = torch.tensor(edges, dtype=torch.float64)
    return torch.cat([values, torch.randn(n - len(edges), dtype=torch.float64) * 4]).to(dtype)


def integer_edges(dtype, n=128):
    torch.manual_seed(2)
    info = torch.iinfo(dtype)
    edges = [0, 1, -1, 2, -2, 3, -3, 7, info.max, info.min, info.max - 1, info.min + 1, info.max // 2, 100, -100]
    low, high = max(info.min, -(2**40)), min(info.max, 2**40)
    return torch.cat(
        [torch.tensor(edges, dtype=dtype), torch.randint(low, high, (n - len(edges),), dtype=torch.int64).to(dtype)]
    )
