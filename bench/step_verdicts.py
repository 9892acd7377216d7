"""Verdicts a second as RL asks for them: groups of real answers to one problem, its reference made for each step anew.

    python bench/step_verdicts.py PROBLEMS.jsonl BENCH.json ... [--device cuda:0] [--workers 14] [--steps 3]
    TRITONFORGE_BINARY, TRITONFORGE_ROOT as tests; --other BINARY: another build, a step of each after the other

BENCH.json are `bench-*.json` of runs whose bench had PROBLEMS (bench/learning/rl_gain.py keeps both). A step judges all
answers under a seed of its own, as many at once as there are workers; each problem is told (POST /v2/problems) while
`--ahead` problems before it are judged, as generators tell it. The first step also admits the problems and is not
counted. Beside the rate: where a verdict's time goes, and what the host's processors and the GPU did meanwhile.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "adversarial"))
import plain_errors
import verdict_seconds

import evaluator_server
from evaluator_server import Evaluator


def groups_of(problems, benches):
    """[(problem id, its source, answers)], in the order of the problems."""
    sources = {}
    for line in problems.read_text().splitlines():
        problem = json.loads(line)
        sources[problem.get("id") or f"level{problem['level']}_{problem['name']}"] = problem["code"]
    answers = collections.defaultdict(list)
    for bench in benches:
        for trajectory in json.loads(bench.read_text()):
            if code := trajectory["turns"][0].get("code"):
                answers[trajectory["problem_id"]].append(code)
    return [(problem, sources[problem], codes) for problem, codes in answers.items()]


def processors():
    """(busy, all) ticks of the host's processors."""
    with open("/proc/stat") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class GpuUse:
    """The share of half seconds in which the device had a kernel, as nvidia-smi tells it; None without one."""

    def __enter__(self):
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "500"]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except FileNotFoundError:
            self.process = None
        return self

    def __exit__(self, *_):
        self.percent = None
        if self.process:
            self.process.terminate()
            self.percent = statistics.mean(map(int, self.process.communicate()[0].split()))


class Side:
    def __init__(self, binary, args):
        evaluator_server.BINARY = binary
        self.settings = {"num_correct_trials": args.trials, "num_perf_trials": args.timed, "timeout_s": 30}
        self.settings |= {"measure_performance": args.device != "cpu"}
        flags = ["--mode", "plan", "--workers", str(args.workers), "--max-queue", "4096", "--device", args.device]
        flags += ["--max-elements", str(args.max_elements), "--max-flops", "0", "--no-torch-compile"]
        self.server, self.args, self.rates = Evaluator(*flags, *args.flag), args, []
        self.verdicts, self.used = [], []

    def step(self, groups, seed):
        waiting = threading.Semaphore(self.args.ahead)
        body = {"seed": seed, **self.settings}

        def tell():
            for problem, source, _ in groups if self.args.ahead else []:
                waiting.acquire()
                self.server.post("/v2/problems", {"problem": {"id": problem, "source": source}, **body})

        def judge(group, code, last):
            problem, source, _ = group
            asked = {"problem": {"id": problem, "source": source}, "candidate": code}
            try:
                return self.server.post("/v2/evaluations", asked | body)
            finally:
                if last:
                    waiting.release()

        teller = threading.Thread(target=tell, daemon=True)
        start, before = time.perf_counter(), processors()
        teller.start()
        with GpuUse() as gpu, ThreadPoolExecutor(self.args.workers) as pool:
            asked = [
                pool.submit(judge, group, code, i == len(group[2]) - 1)
                for group in groups
                for i, code in enumerate(group[2])
            ]
            verdicts = [one.result() for one in asked]
        teller.join()
        took, after = time.perf_counter() - start, processors()
        return verdicts, len(verdicts) / took, (after[0] - before[0]) / max(1, after[1] - before[1]), gpu.percent

    def count(self, found):
        verdicts, rate, cores, gpu = found
        self.verdicts += verdicts
        self.rates.append(rate)
        self.used.append((cores, gpu))

    def print(self, name):
        kinds = collections.Counter(verdict.get("error_kind") or "correct" for verdict in self.verdicts)
        print(f"{name}: verdicts a second {', '.join(f'{rate:.2f}' for rate in self.rates)}; of {len(self.verdicts)}: "
              f"{', '.join(f'{kind} {n}' for kind, n in kinds.most_common())}")  # fmt: skip
        print("  processors busy", ", ".join(f"{cores:.2f}" for cores, _ in self.used),
              " GPU, %", ", ".join("-" if gpu is None else f"{gpu:.0f}" for _, gpu in self.used))  # fmt: skip
        for what, chosen in (("correct", True), ("others", False)):
            some = [verdict for verdict in self.verdicts if verdict["correct"] == chosen]
            parts = verdict_seconds.means(some) if some else {}
            print(f"  {what}, mean seconds: {', '.join(f'{part} {mean:.3f}' for part, mean in parts.items())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", type=pathlib.Path)
    parser.add_argument("benches", type=pathlib.Path, nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=max(2, (os.cpu_count() or 2) - 2))
    parser.add_argument("--ahead", type=int, default=8, help="problems told ahead; 0: none is told")
    parser.add_argument("--steps", type=int, default=3, help="beside the first")
    parser.add_argument("--limit", type=int, default=0, help="so many problems alone")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--timed", type=int, default=40)
    parser.add_argument("--max-elements", type=int, default=4194304)
    parser.add_argument("--flag", action="append", default=[], help="of the evaluator")
    parser.add_argument("--other", help="another program")
    args = parser.parse_args()
    groups = groups_of(args.problems, args.benches)
    groups = groups[: args.limit or len(groups)]
    programs = [evaluator_server.BINARY] + ([args.other] if args.other else [])
    sides = {program: Side(program, args) for program in programs}
    for side in sides.values():
        side.step(groups, 1)
    for seed in range(2, 2 + args.steps):
        for side in list(sides.values())[:: 1 if seed % 2 else -1]:
            side.count(side.step(groups, seed))
    for name, side in sides.items():
        side.print(name)


if __name__ == "__main__":
    plain_errors.use()
    main()
