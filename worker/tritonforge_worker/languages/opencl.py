"""OpenCL C through PoCL on the CPU. Candidates import tritonforge_opencl, which hands out what is here."""

import ctypes
import os

from tritonforge_worker.languages import sources
from tritonforge_worker.languages.sources import CompileError

FLAGS = (
    "-D",
    "-cl-std=",
    "-cl-fast-relaxed-math",
    "-cl-mad-enable",
    "-cl-finite-math-only",
    "-cl-unsafe-math-optimizations",
    "-cl-no-signed-zeros",
    "-cl-denorms-are-zero",
    "-cl-single-precision-constant",
)
# As the process that runs what is compiled here (src/evaluate/plan/opencl_launcher.cpp says why).
SETTINGS = {
    "POCL_DEVICES": "basic",
    "POCL_WORK_GROUP_SPECIALIZATION": "0",
    "HWLOC_SYNTHETIC": "NUMANode:1(memory=4294967296) core:1 pu:1",
}
LIBRARIES = ("/usr/lib/*-linux-gnu/libOpenCL.so.1", "/usr/lib/*-linux-gnu/libpocl.so.2")
ITEM_LIMIT = 4096  # of one group, as PoCL has it
CPU, BUILD_LOG, ARGUMENTS, BINARY_SIZES, BINARIES = 2, 0x1183, 0x1191, 0x1165, 0x1166
ADDRESS, TYPE_NAME = 0x1196, 0x1198
GLOBAL, LOCAL, CONSTANT = 0x119B, 0x119C, 0x119D
INTEGERS = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8}
REALS = {"float": 4, "double": 8}
pointer = ctypes.c_void_p


class Launches(sources.Launches):
    host_memory = True  # there is no other


class Kernel(sources.Kernel):
    """kernel(global_size, local_size, args): work-items in all and in a group, and the arguments in order: tensors for
    __global memory, numbers, local_memory(bytes)."""

    def __call__(self, global_size, local_size, args):
        whole, group = sources.sizes(global_size, "global size"), sources.sizes(local_size, "local size")
        if any(n < 1 for n in group) or any(n % m for n, m in zip(whole, group)):
            raise ValueError(f"global size {whole} is not in whole groups of {group}")
        self.launch([n // m for n, m in zip(whole, group)], group, list(args))


def compile_kernel(source, name, options=()):
    return Kernel(source, name, options.split() if isinstance(options, str) else options)


def local_memory(bytes):
    """An argument: that much __local memory of a group's own."""
    return int(bytes)


def install():
    pass  # tritonforge_opencl is imported by whoever uses it


class OpenCl:
    """The calls of PoCL that compiling takes. Each status that is none of success is a CompileError."""

    def __init__(self, folder):
        os.environ.update(SETTINGS, POCL_CACHE_DIR=folder)
        self.library = ctypes.CDLL("libOpenCL.so.1")
        platform, self.device, status = pointer(), pointer(), ctypes.c_int()
        self.call("clGetPlatformIDs", ctypes.c_uint(1), ctypes.byref(platform), None)
        self.call("clGetDeviceIDs", platform, ctypes.c_ulong(CPU), ctypes.c_uint(1), ctypes.byref(self.device), None)
        create = self.library.clCreateContext
        create.restype = pointer
        self.context = pointer(create(None, 1, ctypes.byref(self.device), None, None, ctypes.byref(status)))
        if status.value != 0:
            raise CompileError(f"clCreateContext: OpenCL error {status.value}")

    def call(self, name, *args):
        status = getattr(self.library, name)(*args)
        if status != 0:
            raise CompileError(f"{name}: OpenCL error {status}")

    def build(self, text, flags):
        create, status = self.library.clCreateProgramWithSource, ctypes.c_int()
        create.restype = pointer
        source = ctypes.c_char_p(text.encode())
        program = pointer(create(self.context, ctypes.c_uint(1), ctypes.byref(source), None, ctypes.byref(status)))
        options = " ".join(["-cl-kernel-arg-info", *flags]).encode()
        if self.library.clBuildProgram(program, 1, ctypes.byref(self.device), options, None, None) != 0:
            log = self.bytes("clGetProgramBuildInfo", program, self.device, ctypes.c_uint(BUILD_LOG))
            raise CompileError(log.rstrip(b"\0").decode(errors="replace").strip() or "the program does not build")
        return program

    def bytes(self, name, *args):
        size = ctypes.c_size_t()
        self.call(name, *args, ctypes.c_size_t(0), None, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self.call(name, *args, size, buffer, None)
        return buffer.raw[: size.value]

    def number(self, name, *args):
        return int.from_bytes(self.bytes(name, *args), "little")

    def kernel(self, program, name):
        create, status = self.library.clCreateKernel, ctypes.c_int()
        create.restype = pointer
        kernel = pointer(create(program, name.encode(), ctypes.byref(status)))
        if status.value != 0:
            raise CompileError(f"the source has no __kernel '{name}'")
        return kernel

    def parameters(self, kernel, name):
        """[[kind, bytes]] in order: what an argument must be, and how wide a number is."""
        found = []
        for index in range(self.number("clGetKernelInfo", kernel, ctypes.c_uint(ARGUMENTS))):
            of = (kernel, ctypes.c_uint(index))
            address = self.number("clGetKernelArgInfo", *of, ctypes.c_uint(ADDRESS))
            type_name = self.bytes("clGetKernelArgInfo", *of, ctypes.c_uint(TYPE_NAME)).rstrip(b"\0").decode()
            if address in (GLOBAL, CONSTANT):
                found.append(["global", 8])
            elif address == LOCAL:
                found.append(["local", 0])
            elif type_name in INTEGERS:
                found.append(["integer", INTEGERS[type_name]])
            elif type_name in REALS:
                found.append(["real", REALS[type_name]])
            else:
                raise CompileError(f"kernel {name}: parameter {index} is a {type_name}: a launch cannot give it one")
        return found

    def binary(self, program):
        size = self.number("clGetProgramInfo", program, ctypes.c_uint(BINARY_SIZES))
        buffer = ctypes.create_string_buffer(size)
        places = (pointer * 1)(ctypes.addressof(buffer))
        self.call("clGetProgramInfo", program, ctypes.c_uint(BINARIES), ctypes.c_size_t(8), places, None)
        return buffer.raw


def compile(text, target, options, folder):
    block, _, flags = sources.options_of(options)
    if block[0] * block[1] * block[2] > ITEM_LIMIT:
        raise CompileError(f"a group of {block[0] * block[1] * block[2]} work-items; {ITEM_LIMIT} is the most")
    flags = sources.checked_flags(flags, FLAGS)
    if any(" " in flag for flag in flags):
        raise CompileError("an option with a space in it")
    opencl = OpenCl(folder)
    program, entry = opencl.build(text, flags), str(options["entry"])
    described = {"entry": entry, "block": block, "parameters": opencl.parameters(opencl.kernel(program, entry), entry)}
    return described, opencl.binary(program)
