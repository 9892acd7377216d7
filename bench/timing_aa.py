"""How far the evaluator's times can be trusted, and how many it gives a second: plan mode on a GPU, all workers busy.

    python bench/timing_aa.py [--workers 14] [--repeats 20] [--out FILE]   TRITONFORGE_BINARY, TRITONFORGE_ROOT as tests

A/A: each of ten candidates is timed against itself, `repeats` evaluations each; the ratio of the two medians is the
error of a speedup. Again: the medians of those evaluations among each other. Beside: triton.testing.do_bench and
KernelBench's method (3 warm-ups, 100 trials between events, L2 flushed), each run `repeats` times in one process that
has the GPU for itself. Rate: different candidates judged and timed a second, against eager, and against torch.compile's
version as well, and of candidates that fail in three ways.
"""

import argparse
import json
import os
import re
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "adversarial"))
import plain_errors
import verdict_seconds

from evaluator_server import Evaluator

HEADER = "import torch\nimport triton\nimport triton.language as tl\n"
# name -> (forward of the reference, inputs, kernel and forward of the candidate)
POINTWISE = """
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.store(y + i, {expression}, mask=i < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024), )](x, y, x.numel(), B=1024)
        return y
"""
ROWS = """
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, B)
    a = tl.load(x + row * n + i, mask=i < n, other={other}).to(tl.float32)
    {body}

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = {out}
        kernel[(x.shape[0], )](x, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]), num_warps=8)
        return y
"""
MATMUL = """
@triton.jit
def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + n[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16))

class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty(M, N, dtype=a.dtype, device=a.device)
        kernel[(M // 128, N // 128)](a, b, c, M, N, K, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
        return c
"""
STORE = "tl.store(y + row * n + i, {}, mask=i < n)"
SOFTMAX = "e = tl.exp(a - tl.max(a, 0))\n    " + STORE.format("e / tl.sum(e, 0)")
NORM = "s = tl.sum(a * a, 0) / n\n    " + STORE.format("a * tl.rsqrt(s + 1e-6)")
SUM = "tl.store(y + row, tl.sum(a, 0))"


def pointwise(torch_text, triton_text, size):
    return torch_text, f"[torch.randn({size})]", POINTWISE.format(expression=triton_text)


def rows(torch_text, body, shape, out="torch.empty_like(x)", other="0.0"):
    return torch_text, f"[torch.randn{shape}]", ROWS.format(body=body, out=out, other=other)


PROBLEMS = {
    "relu, 1 MB": pointwise("torch.relu(x)", "tl.maximum(a, 0.0)", 1 << 18),
    "relu, 16 MB": pointwise("torch.relu(x)", "tl.maximum(a, 0.0)", 1 << 22),
    "relu, 4 MB": pointwise("torch.relu(x)", "tl.maximum(a, 0.0)", 1 << 20),
    "sigmoid chain": pointwise("torch.sigmoid(x) * x + 1", "tl.sigmoid(a) * a + 1", 1 << 22),
    "softmax 2048 x 1024": rows("torch.softmax(x, -1)", SOFTMAX, (2048, 1024), other="float('-inf')"),
    "softmax 512 x 4096": rows("torch.softmax(x, -1)", SOFTMAX, (512, 4096), other="float('-inf')"),
    "rms norm 2048 x 2048": rows("x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)", NORM, (2048, 2048)),
    "row sums 8192 x 1024": rows("x.sum(-1)", SUM, (8192, 1024), "torch.empty(x.shape[0], device=x.device)"),
    "product 1024": ("a @ b", "[torch.randn(1024, 1024).half(), torch.randn(1024, 1024).half()]", MATMUL),
    "product 2048": ("a @ b", "[torch.randn(2048, 2048).half(), torch.randn(2048, 2048).half()]", MATMUL),
}


def problem_of(name):
    forward, inputs, _ = PROBLEMS[name]
    arguments = "a, b" if "a @ b" in forward else "x"
    return (
        f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, {arguments}):\n        return {forward}\n"
        f"def get_inputs():\n    return {inputs}\n"
    )


def judge_all(server, jobs, workers, stage="timed", change=lambda text: text):
    def judge(job):
        name, number = job
        candidate = f"{HEADER}{change(PROBLEMS[name][2])}\n# {number}\n"
        verdict = server.judge(candidate, problem_of(name), timeout_s=300)
        assert verdict["stage"] == stage, (name, verdict)
        return name, verdict

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(judge, jobs))


def parts_of(found):
    """Where a verdict's time goes, as text: each part's mean."""
    means = verdict_seconds.means([verdict for _, verdict in found])
    return ", ".join(f"{part} {1e3 * mean:.0f}" for part, mean in means.items() if mean >= 5e-4) + " ms"


def aa(args):
    server = Evaluator("--mode", "plan", "--device", "cuda:0", "--workers", str(args.workers), "--against-itself")
    judge_all(server, [(name, "warm") for name in PROBLEMS], args.workers)
    jobs = [(name, k) for k in range(args.repeats) for name in PROBLEMS]
    start = time.time()
    found = judge_all(server, jobs, args.workers)
    seconds = time.time() - start
    server.stop()
    ratios, again = {name: [] for name in PROBLEMS}, {name: [] for name in PROBLEMS}
    for name, verdict in found:
        ratios[name].append(verdict["ref_runtime"]["median"] / verdict["runtime"]["median"])
        again[name].append(verdict["runtime"]["median"])
    return ratios, again, len(found) / seconds


def rate(args, *flags):
    server = Evaluator("--mode", "plan", "--device", "cuda:0", "--workers", str(args.workers), *flags)
    judge_all(server, [(name, "warm") for name in PROBLEMS], args.workers)
    start = time.time()
    found = judge_all(server, [(name, k) for k in range(args.repeats) for name in PROBLEMS], args.workers)
    seconds = time.time() - start
    failing(server, args)
    server.stop()
    speedups = {name: [v["speedup"] for n, v in found if n == name] for name in PROBLEMS}
    alone = [int(re.search(r"alone for (\d+) ms", verdict["notes"]["timing"])[1]) for _, verdict in found]
    against = "eager" if "--no-torch-compile" in flags else "eager and torch.compile's version"
    print(
        f"judged and timed against {against}: {len(found) / seconds:.1f} a second; the device alone "
        f"{statistics.median(alone)} ms a verdict (mean {statistics.mean(alone):.0f}), "
        f"{sum(alone) / 1e3 / seconds:.2f} of the time; in the mean {parts_of(found)}",
        flush=True,
    )
    return speedups, len(found) / seconds


# What fails -> (the stage that it reaches, what is wrong)
FAULTS = {
    "compiling": ("imported", lambda text: text.replace("tl.store(", "tl.stor(")),
    "before its first kernel": (
        "imported",
        lambda text: text.replace("        kernel[(", "        torch.no\n        kernel[("),
    ),
    "after a kernel": ("launched", lambda text: text.replace("        return", "        torch.no\n        return")),
}


def failing(server, args):
    for name, (stage, change) in FAULTS.items():
        jobs = [(problem, f"{name} {k}") for k in range(args.repeats // 4) for problem in PROBLEMS]
        start = time.time()
        found = judge_all(server, jobs, args.workers, stage, change)
        seconds, walls = time.time() - start, [verdict["wall_s"] for _, verdict in found]
        print(
            f"failing {name}: {len(found) / seconds:.1f} a second, {statistics.median(walls):.2f} s each (median; "
            f"{args.workers} at once): {parts_of(found)}",
            flush=True,
        )


def peers(args):
    """The same candidates by others' clocks."""
    import tempfile

    import torch
    from triton.testing import do_bench

    def kernelbench(call):
        flush = torch.empty(256 << 18, dtype=torch.int32, device="cuda")
        for _ in range(3):
            call()
        times = []
        for _ in range(100):
            torch.cuda.synchronize()
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.mean(times)

    found = {}
    for name in PROBLEMS:
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(HEADER + PROBLEMS[name][2])
        space = {"__name__": "candidate"}
        with open(file.name) as source:
            exec(compile(source.read(), file.name, "exec"), space)
        inputs = [x.cuda() for x in eval(PROBLEMS[name][1], {"torch": torch})]
        model = space["ModelNew"]()
        call = lambda model=model, inputs=inputs: model(*inputs)  # noqa: E731
        found[name] = {
            "do_bench": [do_bench(call, return_mode="median") for _ in range(args.peer_repeats)],
            "KernelBench": [kernelbench(call) for _ in range(args.peer_repeats)],
        }
    return found


def within(values, part):
    middle = statistics.median(values)
    return sum(abs(v / middle - 1) <= part for v in values) / len(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--peer-repeats", type=int, default=20)
    parser.add_argument("--out")
    args = parser.parse_args()
    ratios, again, aa_rate = aa(args)
    print(f"A/A done, {aa_rate:.1f} verdicts a second", flush=True)
    every = [r for rs in ratios.values() for r in rs]
    inside = sum(0.98 <= r <= 1.02 for r in every) / len(every)
    same = statistics.mean(within(values, 0.03) for values in again.values())
    print(f"A/A: {len(every)} pairs, {inside:.1%} within 0.98 to 1.02; the same candidate again within 3 %: {same:.1%}")
    for name in PROBLEMS:
        print(f"  {name:22} {statistics.median(again[name]):8.4f} ms, A/A {min(ratios[name]):.4f} to", end="")
        print(f" {max(ratios[name]):.4f}, again {min(again[name]):.4f} to {max(again[name]):.4f}", flush=True)
    speedups, judged = rate(args, "--no-torch-compile")
    steady = statistics.mean(within(values, 0.03) for values in speedups.values())
    print(f"the same candidate's speedup over eager again within 3 % of its median: {steady:.1%}")
    rate(args)
    others = peers(args)
    print(f"{'problem':22} {'ms':>8} {'A/A range':>15} {'within 3 %':>10} {'speedup range':>15} {'3 %':>5}", end="")
    print(f" {'do_bench ms':>12} {'3 %':>5} {'KernelBench':>12} {'3 %':>5}")
    for name in PROBLEMS:
        bench, kb = others[name]["do_bench"], others[name]["KernelBench"]
        print(
            f"{name:22} {statistics.median(again[name]):8.4f} {min(ratios[name]):7.4f}{max(ratios[name]):8.4f} "
            f"{within(again[name], 0.03):10.0%} {min(speedups[name]):7.3f}{max(speedups[name]):8.3f} "
            f"{within(speedups[name], 0.03):5.0%} "
            f"{statistics.median(bench):12.4f} {within(bench, 0.03):5.0%} {statistics.median(kb):12.4f} "
            f"{within(kb, 0.03):5.0%}"
        )
    print(f"{args.workers} workers: {aa_rate:.1f} A/A verdicts a second, {judged:.1f} judged and timed against eager")
    if args.out:
        with open(args.out, "w") as file:
            json.dump({"ratios": ratios, "again": again, "speedups": speedups, "peers": others}, file)


if __name__ == "__main__":
    plain_errors.use()
    main()
