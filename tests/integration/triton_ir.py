"""One launch of a @triton.jit kernel as Triton IR text and argument bindings, and the C++ evaluator that runs it."""

import json
import os
import struct
import subprocess
import sys

import torch

ROOT = os.environ.get("TRITONFORGE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "worker"))
BINARY = os.environ.get("TRITONFORGE_BINARY", os.path.join(ROOT, "build", "tritonforge"))
IR_RUN = os.path.join(os.path.dirname(BINARY), "tests", "ir_run")

from triton._C.libtriton import ir
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import create_function_from_signature

from tritonforge_worker.targets import BACKENDS, TARGETS

TARGET, BACKEND = TARGETS["sm_90"], BACKENDS["sm_90"]


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
        return self.process.wait(timeout=30)
