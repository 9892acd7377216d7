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
assert large() - before >= 12 << 10, (before, large())
assert memory[:] == bytes([7]) * len(memory)
"""


def run(code):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "worker"), MALLOC_ARENA_MAX="1")
    limit = "ulimit -v 4000000; exec " + sys.executable + ' -c "$0"'
    return subprocess.run(["bash", "-c", limit, code], env=environment, capture_output=True, text=True, timeout=60)


def test_children_allocate_behind_what_their_parent_has():
    done = run(GAPS)
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
