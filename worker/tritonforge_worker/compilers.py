"""What cannot be compiled on this machine, and so is refused: looked at by the warm parent, once."""

import glob
import importlib.metadata
import os
import shutil
import sys
import sysconfig

from triton.backends import backends

from tritonforge_worker.languages import cuda, hip, opencl
from tritonforge_worker.targets import ALL, TARGETS

CHILDS_PATH = "/usr/bin:/bin"  # zygote.environment
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LANGUAGES = (
    "requirements/install --languages"
    if os.path.exists(os.path.join(SOURCES, "requirements/install"))
    else "sudo apt-get install -y pocl-opencl-icd ocl-icd-libopencl1 clang-19 lld-19"  # an installed package
)


def all_there(paths):
    return all(glob.glob(path) for path in paths)


def wheel(name):
    """The command that installs what is missing of a wheel, in the version that the rest was made for."""
    try:
        version = "==" + importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return f"{sys.executable} -m pip install --force-reinstall --no-deps {name}{version}"


def of_the_host():
    """What Triton's launcher of live mode is built with."""
    if not any(shutil.which(name, path=CHILDS_PATH) for name in ("gcc", "clang")):
        return "no C compiler (gcc or clang)"
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        return "no header Python.h for the C compiler"
    return ""


def missing():
    """[{"what": of a request, "why", "mend": a command}]."""
    found = [
        ("target " + name, f"this Triton has the backends {', '.join(backends)} alone", wheel("triton"))
        for name in ALL
        if name not in TARGETS
    ]
    if not cuda.libraries():
        found.append(("backend cuda", "NVRTC is not here", wheel("nvidia-cuda-nvrtc")))
    if not all_there([hip.CLANG, hip.LINKER]):
        found.append(("backend hip", "clang 19 or its linker is not here", LANGUAGES))
    elif not all_there([os.path.join(hip.AMD, "lib", "ocml.bc")]):
        found.append(("backend hip", "this Triton is without HIP's device libraries", wheel("triton")))
    if not all_there(opencl.LIBRARIES):
        found.append(("backend opencl", "PoCL is not here", LANGUAGES))
    if why := of_the_host():
        found.append(("mode live", why, "sudo apt-get install -y gcc libc6-dev libpython3-dev"))
    return [dict(zip(("what", "why", "mend"), one)) for one in found]
