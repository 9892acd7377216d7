"""Compiles Triton IR (sm_90 cubin, gfx942 hsaco) and kernels' sources to machine code: the compiler on data, no
candidate code."""

import ctypes
import os
import re
import tempfile

from triton._C.libtriton import ir
from triton.backends.compiler import Language
from triton.runtime.errors import OutOfResources

from tritonforge_worker import held
from tritonforge_worker.languages import code_object, language
from tritonforge_worker.languages.sources import CompileError
from tritonforge_worker.targets import BACKENDS, TARGETS, context_of

SHARED_LIMIT = {"sm_90": 232448, "gfx942": 65536}
THREAD_LIMIT = 1024
VECTOR_REGISTERS, SIMDS = 512, 4  # of CDNA3: of a SIMD a lane, and of a compute unit, over which a block's waves spread
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # of glibc's mallopt
OPTIONS = {
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "enable_fp_fusion",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "launch_cooperative_grid",
}


def lower(text, target, options, folder):
    """How the compiled kernel is launched, and its binary; raises what the compiler raises."""
    backend = BACKENDS[target]
    options = backend.parse_options({k: v for k, v in options.items() if k in OPTIONS})
    with tempfile.NamedTemporaryFile("w", suffix=".ttir", dir=folder) as file:
        file.write(text)
        file.flush()
        context = context_of(target)
        module = ir.parse_mlir_module(file.name, context)
        module.context = context
    stages, metadata = {}, {"hash": "", "target": TARGETS[target], **options.__dict__}
    backend.add_stages(stages, options, Language.TRITON)
    for compile_ir in stages.values():
        module = compile_ir(module, metadata)
    if metadata["shared"] > SHARED_LIMIT[target]:
        raise OutOfResources(metadata["shared"], SHARED_LIMIT[target], "shared memory")
    threads = metadata["num_warps"] * TARGETS[target].warp_size
    if threads > THREAD_LIMIT:
        raise OutOfResources(threads, THREAD_LIMIT, "threads")
    described = {
        "entry": metadata["name"],
        "shared": metadata["shared"],
        "warps": metadata["num_warps"],
        "ctas": metadata.get("num_ctas", 1),
        "cooperative": bool(metadata.get("launch_cooperative_grid", False)),
        "dependent": bool(metadata.get("launch_pdl", False)),
        "scratch": metadata.get("global_scratch_size", 0) or 0,
    }
    if TARGETS[target].backend == "hip":
        kernel = code_object.kernel(module, metadata["name"])
        described["resources"] = resources_of(kernel, metadata["num_warps"], metadata["shared"])
    return described, module


def resources_of(kernel, waves, lds):
    """What an AMD kernel takes, in one line. The vector registers of all waves that a SIMD has of a block must be there
    at once: no launch of more is possible. What is spilled lies in memory: that is slow, not wrong, and refused no more
    than for NVIDIA's GPUs."""
    registers, limit = kernel[".vgpr_count"], VECTOR_REGISTERS // -(-waves // SIMDS)  # AGPRs are among them
    if registers > limit:
        raise OutOfResources(registers, limit, "vector registers of a lane")
    return (
        f"{registers} VGPRs and AGPRs ({kernel['.agpr_count']} AGPRs), {4 * kernel['.vgpr_spill_count']} bytes a lane "
        f"spilled, {lds} bytes of LDS"
    )


def concise(error):
    if isinstance(error, CompileError):
        return str(error)[:2000]
    text = str(error)
    text = re.sub(r"\nRepro command:.*", "", text, flags=re.S)
    return f"{type(error).__name__}: {text}".strip()[:2000]


def keep_memory():
    """What one compilation frees the next one takes again, here and in ptxas: asking the system for it page by page,
    each time, took a fifth of ptxas's time and of LLVM's for gfx942."""
    libc = ctypes.CDLL(None)
    for parameter, value in ((M_TRIM_THRESHOLD, 1 << 30), (M_MMAP_THRESHOLD, 1 << 25), (M_TOP_PAD, 1 << 24)):
        libc.mallopt(parameter, value)
    os.environ["GLIBC_TUNABLES"] = ":".join(
        "glibc.malloc." + tunable
        for tunable in ("hugetlb=1", "top_pad=8388608", "mmap_threshold=33554432", "trim_threshold=1073741824")
    )  # pages of 2 MiB


def serve(channel, sandbox):
    keep_memory()
    folder = sandbox["folder"]
    held.install(os.path.join(os.path.dirname(sandbox["library"]), "libtritonforge_held.so"), folder)
    while True:
        request, payload = channel.receive()
        try:
            compiler = language(request["language"])
            described, binary = compiler.compile(bytes(payload).decode(), request["target"], request["options"], folder)
            channel.send({"ok": True, **described}, [binary] if request["binary"] else [])
        except Exception as error:
            channel.send({"ok": False, "error": concise(error)})


def warm_up():
    from triton.backends.nvidia.compiler import get_ptxas, get_ptxas_version

    get_ptxas_version(90)
    _ = get_ptxas(90).version
    for name in TARGETS:
        BACKENDS[name].hash()
