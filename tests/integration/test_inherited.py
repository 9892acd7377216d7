"""The memory that the evaluator's Python parent leaves to its children."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))

# A heap of which every second block was given back, in a process of its own.
GAPS = """
import ctypes
from tritonforge_worker import inherited
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
blocks = [libc.malloc(size) for size in (600, 4000, 30000) * 400]
for _ in range(20):  # what lies nearest to the heap's end is left alone
    libc.malloc(60000)
for block in blocks[::2]:
    libc.free(block)
gaps = blocks[::2]
assert libc.malloc(4000) <= max(gaps)
end = libc.sbrk(0)
inherited.fill_gaps()
assert libc.sbrk(0) - end < 2 << 20, "gaps were filled with memory that was not there before"
assert all(libc.malloc(size) > max(gaps) for size in (600, 4000, 30000))
"""

# 16 MiB of pages that were written.
PAGES = """
import ctypes, mmap
from tritonforge_worker import inherited
memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = bytes([7]) * len(memory)
def large():
    with open("/proc/self/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("AnonHugePages"))
before = large()
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
at = -(-start // inherited.HUGE_PAGE) * inherited.HUGE_PAGE
madvise = ctypes.CDLL(None, use_errno=True).madvise
madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
if madvise(at, inherited.HUGE_PAGE, inherited.COLLAPSE) != 0:
    raise SystemExit(77)  # no such pages here
inherited.collapse()
if large() - before < 12 << 10 and madvise(at, 6 * inherited.HUGE_PAGE, inherited.COLLAPSE) != 0:
    raise SystemExit(77)  # nor has it any more of them now
assert large() - before >= 12 << 10, (before, large())
assert memory[:] == bytes([7]) * len(memory)
"""

# Objects that fill many of Python's pieces of memory, some given back and taken again, between what others map.
ARENAS = """
import ctypes, mmap, os
from tritonforge_worker import inherited
library = ctypes.PyDLL(os.environ["SANDBOX_LIBRARY"])
inherited.place_arenas(library)
others = []
def placed():
    texts = []
    for k in range(400_000):
        texts.append(str(k) * 9)
        if k % 10_000 == 0:
            others.append(mmap.mmap(-1, 1 << 22))
    return texts
kept, given = placed(), placed()
del given
more = placed()
assert more[-1] == "399999" * 9 and kept[7] == "7" * 9
at = sorted({id(text) >> 20 for text in kept + more})  # pieces of 1 MiB
runs = 1 + sum(b - a > 1 for a, b in zip(at, at[1:]))
assert len(at) > 40 and runs <= 8, (len(at), runs)
"""


def run(code):
    library = pathlib.Path(os.environ.get("TRITONFORGE_BINARY", ROOT / "build" / "tritonforge")).parent
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "worker"), MALLOC_ARENA_MAX="1")
    environment["SANDBOX_LIBRARY"] = str(library / "libtritonforge_sandbox.so")
    limit = "ulimit -v 4000000; exec " + sys.executable + ' -c "$0"'
    return subprocess.run(["bash", "-c", limit, code], env=environment, capture_output=True, text=True, timeout=200)


def test_children_allocate_behind_what_their_parent_has():
    done = run(GAPS)
    assert done.returncode == 0, done.stderr


def test_pythons_objects_lie_side_by_side():
    done = run(ARENAS)
    assert done.returncode == 0, done.stderr


def test_what_is_inherited_is_in_large_pages():
    done = run(PAGES)
    if done.returncode == 77:
        pytest.skip("this kernel has no large pages to give")
    assert done.returncode == 0, done.stderr


def test_a_process_has_one_context_a_target():
    pytest.importorskip("triton")
    sys.path.insert(0, str(ROOT / "worker"))
    from tritonforge_worker.targets import TARGETS, context_of

    for name in TARGETS:
        assert context_of(name) is context_of(name)
