"""Role P of plan mode: hands its socket to the C++ replayer in this process's address space. Runs no candidate code."""
import ctypes
import os

_library = None


def warm_up(sandbox_library):
    """Loaded by the parent, which has libtorch already; children inherit it."""
    global _library
    path = os.path.join(os.path.dirname(sandbox_library), "libtritonforge_replay.so")
    if os.path.exists(path):
        _library = ctypes.CDLL(path)
        _library.tritonforge_replay.argtypes = [ctypes.c_int]
        _library.tritonforge_replay.restype = ctypes.c_int


def serve(channel, sandbox):
    if _library is None:
        raise RuntimeError("libtritonforge_replay.so was not beside the sandbox's library")
    if _library.tritonforge_replay(channel.fd) != 0:
        raise RuntimeError("the replayer ended with an error")
