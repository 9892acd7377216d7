"""What a process of its own costs on a GPU: how many contexts a host's driver makes a second, and what allocations of
others take meanwhile.

    python bench/gpu_contexts.py [--seconds 3] [--torch]        needs an NVIDIA GPU

--torch: the same of processes that are forked from one that has imported torch and then multiply, as a problem's own
process does.
"""

import argparse
import ctypes
import functools
import multiprocessing
import os
import statistics
import time

import plain_errors


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    if code := getattr(driver(), name)(*arguments):
        raise RuntimeError(f"{name}: CUDA error {code}")


def make_context():
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


def multiply():
    import torch

    x = torch.zeros(1024, 1024, device="cuda")
    (x @ x).sum().item()


def one_after_the_other(seconds, body, answers):
    """Processes that do `body` and end; [seconds until that was done], [until they had ended]."""
    done, ended, end = [], [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        reader, writer = os.pipe()
        start = time.perf_counter()
        if not (pid := os.fork()):
            body()
            os.write(writer, f"{time.perf_counter() - start}".encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            done.append(float(file.read()))
        os.waitpid(pid, 0)
        ended.append(time.perf_counter() - start)
    answers.put((done, ended))


def measure(at_once, seconds, body, beside=None):
    answers, start = multiprocessing.Queue(), time.perf_counter()
    processes = [
        multiprocessing.Process(target=one_after_the_other, args=(seconds, body, answers)) for _ in range(at_once)
    ]
    for process in processes:
        process.start()
    if beside:
        beside()
    found = [answers.get() for _ in processes]
    took = time.perf_counter() - start
    done, ended = ([seconds for one in found for seconds in one[k]] for k in (0, 1))
    print(f"{at_once} at once: {len(ended) / took:.2f} a second, done after {statistics.median(done):.3f} s, "
          f"ended after {statistics.median(ended):.3f} s", flush=True)  # fmt: skip


def allocations():
    make_context()
    for size in (1 << 20, 1 << 24):
        times, end = [], time.perf_counter() + 1
        while time.perf_counter() < end:
            start, memory = time.perf_counter(), ctypes.c_uint64()
            call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
            call("cuMemFree_v2", memory)
            times.append(1000 * (time.perf_counter() - start))
        print(f"    {size >> 20} MiB taken and given back: median {statistics.median(times):.3f}, mean "
              f"{statistics.mean(times):.3f}, 99 % {sorted(times)[len(times) * 99 // 100]:.3f} ms",
              flush=True)  # fmt: skip


def allocate_beside():
    process = multiprocessing.Process(target=allocations)
    process.start()
    process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    if args.torch:
        import torch  # noqa: F401, before the forks
    driver()  # says that there is none before anything is forked
    body = multiply if args.torch else make_context
    allocate_beside()
    for at_once in (1, 2, 4, 8, 14):
        measure(at_once, args.seconds, body)
    measure(4, max(args.seconds, 4), body, allocate_beside)


if __name__ == "__main__":
    plain_errors.use()
    main()
