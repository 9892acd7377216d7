"""CUDA C++ through NVRTC, in the form of torch.cuda._compile_kernel: what is judged here runs there as it stands."""

import ctypes
import glob
import os
import re
import sys
import types

import torch

from tritonforge_worker.languages import sources
from tritonforge_worker.languages.sources import CompileError, Launches  # noqa: F401

SHARED_LIMIT, THREAD_LIMIT, REGISTERS = 232448, 1024, 65536
FLAGS = (
    "-D",
    "--define-macro=",
    "-std=",
    "--std=",
    "-use_fast_math",
    "--use_fast_math",
    "-ftz=",
    "--ftz=",
    "-fmad=",
    "--fmad=",
    "-prec-div=",
    "--prec-div=",
    "-prec-sqrt=",
    "--prec-sqrt=",
    "-maxrregcount=",
    "--maxrregcount=",
    "--extra-device-vectorization",
    "-default-device",
    "--expt-relaxed-constexpr",
    "-lineinfo",
)
# With which torch.cuda._compile_kernel compiles (torch.cuda._utils).
FLAGS_OF_TORCH = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z])(\d+)\s[^,\[]*(?:\[(\d+)\])?")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class Kernel(sources.Kernel):
    def __call__(self, grid=(1, 1, 1), block=(1, 1, 1), args=None, shared_mem=0, stream=None):
        self.launch(grid, block, args or [], shared_mem)

    def set_shared_memory_config(self, shared_mem_bytes):
        pass  # whoever launches it here asks for what it needs


def compile_kernel(kernel_source, kernel_name, compute_capability=None, cuda_include_dirs=None, nvcc_options=None):
    if cuda_include_dirs:
        raise ValueError("cuda_include_dirs: CUDA's own headers are there, and no others")
    return Kernel(kernel_source, kernel_name, nvcc_options or ())


def no_extension(*args, **kwargs):
    raise NotImplementedError(
        "torch.utils.cpp_extension: C++ code of the host cannot be recorded; compile the __global__ kernels with "
        "torch.cuda._compile_kernel(source, name) and launch them as kernel(grid=..., block=..., args=[...])"
    )


def install():
    torch.cuda._compile_kernel = compile_kernel
    # In the place of torch's, which takes 0.4 s to import.
    extension = types.ModuleType("torch.utils.cpp_extension")
    extension.load_inline = extension.load = no_extension
    sys.modules[extension.__name__] = torch.utils.cpp_extension = extension


def libraries():
    """NVRTC's, of the wheels that torch came with."""
    try:
        import nvidia
    except ImportError:
        return []
    return [path for folder in nvidia.__path__ for path in glob.glob(os.path.join(folder, "cu*/lib/libnvrtc.so.*"))]


def toolkit():
    """NVRTC, and where CUDA's headers are."""
    for path in libraries():
        return ctypes.CDLL(path), os.path.join(os.path.dirname(os.path.dirname(path)), "include")
    raise CompileError("the wheel nvidia-cuda-nvrtc is not installed")


def texts(items):
    return (ctypes.c_char_p * len(items))(*(item.encode() for item in items))


class Program:
    def __init__(self, nvrtc, source, name):
        self.nvrtc, self.handle = nvrtc, ctypes.c_void_p()
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        self.check(nvrtc.nvrtcCreateProgram(ctypes.byref(self.handle), source, b"kernel.cu", 0, None, None))
        self.check(nvrtc.nvrtcAddNameExpression(self.handle, name.encode()))
        self.name = name

    def check(self, status):
        if status != 0:
            raise CompileError(self.nvrtc.nvrtcGetErrorString(status).decode())

    def bytes(self, what):
        size = ctypes.c_size_t()
        self.check(getattr(self.nvrtc, f"nvrtcGet{what}Size")(self.handle, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self.check(getattr(self.nvrtc, f"nvrtcGet{what}")(self.handle, buffer))
        return buffer.raw[: size.value]

    def compile(self, options):
        status = self.nvrtc.nvrtcCompileProgram(self.handle, len(options), texts(options))
        log = self.bytes("ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status != 0:
            raise CompileError(log.strip() or self.nvrtc.nvrtcGetErrorString(status).decode())
        return log

    def lowered_name(self):
        found = ctypes.c_char_p()
        self.check(self.nvrtc.nvrtcGetLoweredName(self.handle, self.name.encode(), ctypes.byref(found)))
        return found.value.decode()


def used(log, entry):
    """(registers, bytes spilled, bytes of static shared memory) of one kernel, as ptxas tells them."""
    part = log.partition(f"Compiling entry function '{entry}'")[2].partition("Compiling entry function")[0]
    found, spilled = USED.search(part), SPILLED.search(part)
    if not found:
        raise CompileError(f"ptxas says nothing of {entry}")
    return int(found[1]), sum(map(int, spilled.groups())) if spilled else 0, int(found[2] or 0)


def parameters(ptx, entry):
    """[[kind, bytes]] of a kernel's, in order: "real", "integer", or "value" where PTX does not tell (eight bytes may
    be a pointer, others a struct or a half)."""
    listed = re.search(rf"\.entry {re.escape(entry)}\s*\((.*?)\)", ptx, re.S)
    found = []
    for kind, bits, many in PARAMETER.findall(listed[1]) if listed else []:
        told = "real" if kind == "f" else "integer" if int(bits) < 64 and not many else "value"
        found.append([told, int(bits) // 8 * int(many or 1)])
    return found


def compile(text, target, options, folder):
    block, shared, flags = sources.options_of(options)
    nvrtc, headers = toolkit()
    program = Program(nvrtc, text.encode(), str(options["entry"]))
    given = [f"--gpu-architecture={target}", f"-I{headers}", "--ptxas-options=-v", *FLAGS_OF_TORCH]
    log = program.compile([*given, *sources.checked_flags(flags, FLAGS)])
    entry = program.lowered_name()
    registers, spilled, static = used(log, entry)
    threads = block[0] * block[1] * block[2]
    if threads > THREAD_LIMIT:
        raise CompileError(f"a block of {threads} threads; {THREAD_LIMIT} is the most")
    if registers * threads > REGISTERS:
        raise CompileError(f"{registers} registers for each of {threads} threads; a multiprocessor has {REGISTERS}")
    if static + shared > SHARED_LIMIT:
        raise CompileError(f"{static + shared} bytes of shared memory; {SHARED_LIMIT} is the most")
    described = {
        "entry": entry,
        "shared": shared,
        "warps": (threads + 31) // 32,
        "ctas": 1,
        "cooperative": False,
        "dependent": False,
        "scratch": 0,
        "block": block,
        "own_parameters": 0,
        "parameters": parameters(program.bytes("PTX").decode(errors="replace"), entry),
        "resources": f"{registers} registers, {spilled} bytes spilled, {static + shared} bytes of shared memory",
    }
    return described, program.bytes("CUBIN")
