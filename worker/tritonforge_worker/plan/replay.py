"""Role P of plan mode: hands its socket to the C++ replayer in this process's address space. Runs no candidate code."""

import ctypes
import os

_libraries = []


def warm_up(sandbox_library):
    """Loaded by the parent, which has libtorch already; children inherit it."""
    path = os.path.join(os.path.dirname(sandbox_library), "libtritonforge_replay.so")
    if os.path.exists(path):
        library = ctypes.CDLL(path)
        library.tritonforge_replay.argtypes = [ctypes.c_int]
        library.tritonforge_replay.restype = ctypes.c_int
        _libraries.append(library)


def serve(channel, sandbox):
    if not _libraries:
        raise RuntimeError("libtritonforge_replay.so was not beside the sandbox's library")
    if _libraries[0].tritonforge_replay(channel.fd) != 0:
        raise RuntimeError("the replayer ended with an error")
