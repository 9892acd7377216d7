"""HIP C++ for gfx942 by clang, in the form of torch.cuda._compile_kernel, which is HIP's in a ROCm build of torch.

Headers and device libraries are those that Triton ships; clang and its linker are Debian's."""

import os
import re
import subprocess

import triton.backends

from tritonforge_worker.languages import code_object, sources
from tritonforge_worker.languages.cuda import install  # noqa: F401
from tritonforge_worker.languages.sources import CompileError, Launches  # noqa: F401

CLANG, LINKER = "/usr/lib/llvm-19/bin/clang", "/usr/lib/llvm-19/bin/ld.lld"
AMD = os.path.join(os.path.dirname(triton.backends.__file__), "amd")  # Triton's folder of HIP's headers and libraries
LDS_LIMIT, THREAD_LIMIT = 65536, 1024
COMPILE_SECONDS = 50  # the trusted side waits for 60
FLAGS = ("-D", "-std=", "-ffast-math", "-ffp-contract=", "-fgpu-flush-denormals-to-zero", "-munsafe-fp-atomics")
# What the device libraries are told of the program, which hipcc would say through files of its own.
CONTROLS = (
    ("unsigned char", "finite_only_opt", 0),
    ("unsigned char", "unsafe_math_opt", 0),
    ("unsigned char", "daz_opt", 0),
    ("unsigned char", "correctly_rounded_sqrt32", 1),
    ("unsigned char", "wavefrontsize64", 1),
    ("unsigned int", "ISA_version", 9402),
    ("unsigned int", "ABI_version", 500),
)
REMARK = re.compile(r"remark:\s+(Function Name|VGPRs|AGPRs|VGPRs Spill|SGPRs Spill|LDS Size \[bytes/block\]): (\S+)")


def prelude():
    lines = [
        f'extern "C" const __attribute__((device, used, visibility("hidden"))) {kind} __oclc_{name} = {value};'
        for kind, name, value in CONTROLS
    ]
    return '#pragma clang diagnostic ignored "-Wextern-initializer"\n' + "\n".join(lines) + "\n"


def resources(text):
    """{kernel: {"VGPRs": ..., ...}} of clang's remarks."""
    found, current = {}, {}
    for name, value in REMARK.findall(text):
        if name == "Function Name":
            current = found.setdefault(value, {})
        else:
            current[name.partition(" [")[0]] = int(value)
    return found


def entry_of(name, found):
    """The symbol of a kernel: its own name where it is extern "C", else the one that mangles it."""
    matches = [symbol for symbol in found if symbol == name or symbol.startswith(f"_Z{len(name)}{name}")]
    if len(matches) != 1:
        raise CompileError(f"the source has no __global__ kernel '{name}' (it has {', '.join(found) or 'none'})")
    return matches[0]


def compile(text, target, options, folder):
    block, shared, flags = sources.options_of(options)
    flags = sources.checked_flags(flags, FLAGS)
    paths = {name: os.path.join(folder, name) for name in ("kernel.hip", "prelude.h", "kernel.hsaco")}
    for name, content in (("kernel.hip", text), ("prelude.h", prelude())):
        with open(paths[name], "w") as file:
            file.write(content)
    libraries = [os.path.join(AMD, "lib", name) for name in ("ocml.bc", "ockl.bc")]
    command = [CLANG, "-x", "hip", "kernel.hip", "-o", "kernel.hsaco", f"--offload-arch={target}", "-O3"]
    command += ["--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-D__HIP_PLATFORM_AMD__"]
    command += ["-include", "__clang_hip_runtime_wrapper.h", "-include", "prelude.h", "-I."]
    command += ["-isystem", os.path.join(AMD, "include"), "-include", "hip/hip_runtime.h"]  # as hiprtc, torch's way
    command += ["-Rpass-analysis=kernel-resource-usage", "-std=c++17"]
    for library in libraries:
        command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", library]
    run = subprocess.run(
        [*command, *flags], cwd=folder, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS
    )
    if run.returncode != 0:
        raise CompileError(without_remarks(run.stderr).strip() or f"clang ended with status {run.returncode}")
    entry = entry_of(str(options["entry"]), found := resources(run.stderr))
    taken = found[entry]
    lds, threads = taken.get("LDS Size", 0) + shared, block[0] * block[1] * block[2]
    if lds > LDS_LIMIT:
        raise CompileError(f"{lds} bytes of LDS; {LDS_LIMIT} is the most")
    if threads > THREAD_LIMIT:
        raise CompileError(f"a block of {threads} threads; {THREAD_LIMIT} is the most")
    spilled = 4 * taken.get("VGPRs Spill", 0)
    described = {
        "entry": entry,
        "block": block,
        "shared": shared,
        "resources": f"{taken['VGPRs']} VGPRs, {taken.get('AGPRs', 0)} AGPRs, {spilled} bytes a lane spilled, "
        f"{lds} bytes of LDS",
    }
    with open(paths["kernel.hsaco"], "rb") as file:
        binary = file.read()
    return {**described, "parameters": code_object.parameters(binary, entry)}, binary


def without_remarks(text):
    """clang's errors without its remarks, each of which has two lines of source below it."""
    kept, skip = [], 0
    for line in text.splitlines():
        if ": remark: " in line:
            skip = 2
        elif skip > 0 and line.startswith("  "):
            skip -= 1
        else:
            skip = 0
            kept.append(line)
    return "\n".join(kept)
