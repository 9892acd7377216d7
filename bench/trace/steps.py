"""Where steps of the engine go, from what kernel_trace.so wrote: for each kind of step (the kernels it runs, in order)
the median time from its first kernel to the next step's, and of each kernel its own time and what it adds after the
end of those before it; "idle" is when none ran.

usage: steps.py TRACE [--least COUNT]       kinds that came at least so often (2)
"""

import argparse
import collections
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import plain_errors


def readable(names):
    """Names without parameters; nvjet and cutlass as they are."""
    shown = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return [re.sub(r"(void |tritonforge::gpu::|\(anonymous namespace\)::|\(.*)", "", x) for x in shown.split("\n")]


def steps_of(path):
    """Each step begins with the one copy of its numbers to the device: lists of (begin, end, name)."""
    with open(path) as lines:
        records = sorted((line.rstrip("\n").split(" ", 3) for line in lines), key=lambda r: int(r[0]))
    step, steps = [], []
    for begin, end, kind, name in records:
        if kind == "copy1":
            steps.append(step)
            step = []
        elif kind == "kernel":
            step.append((int(begin), int(end), name))
    return [s for s in [*steps, step] if s]


def busy(step):
    """Time in which at least one kernel ran."""
    total, until = 0, 0
    for begin, end, _ in step:
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--least", type=int, default=2)
    options = parser.parse_args()
    kinds = collections.defaultdict(list)
    steps = steps_of(options.trace)
    names = sorted({name for step in steps for _, _, name in step})
    shown = dict(zip(names, readable(names), strict=False))
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        key = tuple(shown[name] for _, _, name in step)
        kinds[key].append((step, after[0][0] - step[0][0] if after else None))
    for key, found in kinds.items():
        if len(found) < options.least:
            continue
        span = statistics.median(max(e for _, e, _ in step) - step[0][0] for step, _ in found)
        used = statistics.median(busy(step) for step, _ in found)
        apart = statistics.median(gap for _, gap in found if gap) if any(gap for _, gap in found) else 0
        print(
            f"{len(found)} steps of {len(key)} kernels: {span / 1e6:.3f} ms, idle {100 * (1 - used / span):.1f} %, "
            f"next step after {apart / 1e6:.3f} ms"
        )
        sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
        for i, name in enumerate(key):
            own = statistics.median(step[i][1] - step[i][0] for step, _ in found)
            adds = statistics.median(step[i][1] - (step[i - 1][1] if i else step[i][0]) for step, _ in found)
            sums[name] = [a + b for a, b in zip(sums[name], (1, own, adds), strict=True)]
        for name, (count, own, adds) in sorted(sums.items(), key=lambda x: -x[1][2]):
            each = f"{count:4} x {adds / count / 1e3:8.2f} us (own {own / count / 1e3:8.2f})"
            print(f"  {adds / 1e6:8.3f} ms  {each}  {name}")


if __name__ == "__main__":
    plain_errors.use()
    main()
