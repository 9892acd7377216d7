"""Evaluations per second: the warm evaluator against a fresh Python process each (as TritonForge's servers do).

needs the built binary (TRITONFORGE_BINARY or ./build/tritonforge)
Every candidate is different text, so the verdict cache answers for none; both sides run on the same two cores.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "adversarial"))
os.environ.setdefault("TRITONFORGE_ROOT", ROOT)
import plain_errors

from evaluator_server import HONEST, PROBLEM, Evaluator

FRESH = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch
import importlib.util
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
problem, candidate = load("problem", sys.argv[1]), load("candidate", sys.argv[2])
for seed in range(3):
    torch.manual_seed(seed)
    inputs = problem.get_inputs()
    assert torch.allclose(problem.Model()(*inputs), candidate.ModelNew()(*inputs), atol=1e-4)
"""


def rate(run, count, parallel):
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        list(pool.map(run, range(count)))
    return count / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=40, help="evaluations a side")
    count, cores = parser.parse_args().count, os.cpu_count()
    python = subprocess.run(
        [os.path.join(ROOT, "requirements", "install"), "--python"], capture_output=True, text=True, check=True
    ).stdout.strip()
    server = Evaluator("--workers", str(cores))

    def ours(i):
        # A neighbour in fp32 is another kernel: its machine code is not in the compile cache either.
        verdict = server.judge(HONEST.replace("* 2, mask", f"* {2 + i * 2**-22:.12f}, mask"))
        assert verdict["correct"], verdict

    def ours_same_kernel(i):
        assert server.judge(HONEST + f"# {i}\n")["correct"]

    ours(count)
    cold, warm = rate(ours, count, cores), rate(ours_same_kernel, count, cores)
    server.stop()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("problem.py", "candidate.py", "fresh.py")]
        for path, text in zip(paths, (PROBLEM, HONEST, FRESH)):
            with open(path, "w") as file:
                file.write(text)
        fresh = rate(
            lambda i: subprocess.run([python, paths[2], *paths[:2]], check=True, capture_output=True),
            max(2, count // 10),
            cores,
        )
    print(f"new kernel each   ours {cold:7.2f} /s   (3 trials, replayed as a plan, sm_90 compiled, sandboxed)")
    print(f"known kernel      ours {warm:7.2f} /s   (the same, machine code from the shared cache)")
    print(f"one process each  peer {fresh:7.2f} /s   (3 trials, interpreter only, no sandbox)")
    print(f"ratio {cold / fresh:.1f} (new kernels), {warm / fresh:.1f} (known kernels)")


if __name__ == "__main__":
    plain_errors.use()
    main()
