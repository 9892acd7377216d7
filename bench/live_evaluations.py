"""Evaluations per second on a GPU, as one RL step sends them (8 problems x 8 candidates), and the machine's limit:
every candidate has a process and a CUDA context of its own, and the driver makes contexts one after the other.

needs a GPU, the built binary (TRITONFORGE_BINARY or ./build/tritonforge) and pairs of
`tritonforge data generate --style full`
"""

import argparse
import collections
import concurrent.futures
import json
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "adversarial"))
os.environ.setdefault("TRITONFORGE_ROOT", ROOT)
import plain_errors

from evaluator_server import Evaluator


def contexts_per_second(channels, parallel=8, total=32):
    """Forked children of a parent that has imported torch; each makes a context and one tensor, and ends."""
    import torch

    made = running = 0
    start = time.perf_counter()
    while made < total:
        while running < parallel and made + running < total:
            if os.fork() == 0:
                try:
                    if channels:
                        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = str(channels)
                    torch.zeros(1, device="cuda").item()
                except Exception as error:
                    print(str(error).splitlines()[0], file=sys.stderr, flush=True)
                    os._exit(1)  # the interpreter's own end waits for threads that a forked child has not
                os._exit(0)
            running += 1
        _, status = os.wait()
        if status != 0:
            raise SystemExit("a child could not make a CUDA context")
        running, made = running - 1, made + 1
    return total / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs")
    parser.add_argument("--workers", type=int, default=max(2, os.cpu_count() - 2))
    parser.add_argument("--max-elements", type=int, default=1 << 22)
    options = parser.parse_args()
    print(
        f"contexts a second, 8 at once: {contexts_per_second(0):.1f}; "
        f"with one channel, as the evaluator's children have: {contexts_per_second(1):.1f}",
        flush=True,
    )
    with open(options.pairs) as file:
        pairs = [json.loads(line) for line in file][-8:]
    server = Evaluator("--mode", "live", "--workers", str(options.workers), "--max-elements", str(options.max_elements))
    for name, change in (
        ("correct", lambda text: text),
        ("not compiling", lambda text: text.replace("tl.store(", "tl.stor(")),
        ("correct, again", lambda text: text),
    ):
        jobs = [
            (pair["problem"], change(pair["solution"]) + f"# {name} {copy}\n") for pair in pairs for copy in range(8)
        ]
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            verdicts = list(
                pool.map(lambda job: server.judge(job[1], job[0], num_correct_trials=2, num_perf_trials=30), jobs)
            )
        wall = time.perf_counter() - start
        speedups = [v["speedup"] for v in verdicts if v["stage"] == "timed"]
        print(
            f"{name}: {len(jobs) / wall:.2f} evaluations a second "
            f"({wall:.1f} s for {len(jobs)}, {options.workers} workers); "
            f"stages {dict(collections.Counter(v['stage'] for v in verdicts))}"
            + (
                f"; speedup {min(speedups):.2f} to {max(speedups):.2f}, median {statistics.median(speedups):.2f}"
                if speedups
                else ""
            ),
            flush=True,
        )
    server.stop()


if __name__ == "__main__":
    plain_errors.use()
    main()
