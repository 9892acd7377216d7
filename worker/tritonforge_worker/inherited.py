"""The parent's memory as its children get it: a fork copies page tables, and a child that writes copies pages."""

import contextlib
import ctypes

HUGE_PAGE, COLLAPSE = 2 << 20, 25  # MADV_COLLAPSE, since Linux 6.1
# Of malloc, in bytes. What lies nearer than HEAP_END to the heap's end is taken for none.
LARGEST_GAP, SMALLEST_GAP, MOST_IN_GAPS, HEAP_END = 1 << 16, 24, 64 << 20, 1 << 20
EACH_SIZE = 1040  # up to here malloc keeps what is free by its exact size


class ArenaAllocator(ctypes.Structure):  # Python's PyObjectArenaAllocator
    _fields_ = (("context", ctypes.c_void_p), ("take", ctypes.c_void_p), ("give_back", ctypes.c_void_p))


def place_arenas(library):
    """Before anything is loaded: from here on Python's small objects lie side by side (sandbox/inherited.cpp)."""
    functions = (library.tritonforge_take_arena, library.tritonforge_give_back_arena)
    allocator = ArenaAllocator(None, *(ctypes.cast(function, ctypes.c_void_p) for function in functions))
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(allocator))


def settle():
    """Once everything is loaded. A fork, and the end of its child, cost a third of what they cost before."""
    fill_gaps()
    collapse()


def fill_gaps():
    """Takes what the heap has free between its blocks, for good: children then allocate side by side behind it.

    Each gap that a child took would copy a page of its own."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    size, left = LARGEST_GAP, MOST_IN_GAPS
    while size >= SMALLEST_GAP:
        end, taken = libc.sbrk(0), libc.malloc(size)
        left -= size
        if left < 0 or taken is None or taken + HEAP_END > end or libc.sbrk(0) != end:
            libc.free(taken)  # of the heap's end, not of a gap
            size = size * 7 // 8 if size > EACH_SIZE else size - 16


def collapse():
    """Memory of one's own in pages of 2 MiB, as far as the kernel has them: one entry of a page table for 512."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in writable_memory():
        for at in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
            madvise(at, HUGE_PAGE, COLLAPSE)  # where it fails, the pages stay as they are


def writable_memory():
    """(start, end) of what is neither a file nor a stack."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps.read().splitlines():
            places, rights, *_, name = line.split(" ", maxsplit=5)
            if rights == "rw-p" and name.strip() in ("", "[heap]"):
                start, end = places.split("-")
                yield int(start, 16), int(end, 16)
