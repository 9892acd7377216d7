"""What RL adds to a real model: SFT once, then RL from it for each rate and seed, and one bench before and after.

usage: rl_gain.py PAIRS MODEL PROBLEMS OUTPUT [--rates 3e-6] [--seeds 1,2,3] [--steps 70] [--at-once 2]
                  [--device cuda:0] [--held-out 120] [--samples 4] [--set KEY=VALUE ...]
needs TRITONFORGE (the command; ./tritonforge without it)

PAIRS are of `tritonforge data generate` (style wide), PROBLEMS KernelBench's JSON lines, of which nothing is trained
on. The recipe is recipes/qwen2.5-coder-0.5b.yaml: SFT sees the pairs of split train, RL the problems of split rl, and
the bench is of split holdout and of PROBLEMS. The table pools a rate's seeds, as pool_runs.py does (fast_1 is 0 where
nothing is timed; speed: what the mean logarithm of the correct ones' speedups gained, over problems that have some
before and after); what OUTPUT has already is not made again.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import sys

from pool_runs import correct, gain, outcomes, pooled
from stage_ablation import bench_problems, beside, call, read_pairs, run_recipe, write_lines

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import plain_errors
import verdict_seconds


def make_problems(folder, args):
    """bench.jsonl, and the problems of RL alone in problems/rl."""
    if (folder / "bench.jsonl").exists():
        return
    pairs = read_pairs(args.pairs)
    for_rl = sum(pair["split"] == "rl" for pair in pairs)
    call(folder / "data.log", "data", "problems", args.pairs, "--rl", for_rl, "--output", folder / "problems")
    _, asked = bench_problems(pairs, args.problems, args.held_out, random.Random(1))
    write_lines(folder / "bench.jsonl", asked)


def sft(folder, args):
    run = folder / "sft"
    if not (run / "models/sft/config.json").exists():
        run_recipe(
            folder / "sft.log",
            run,
            beside(1)
            | {"stages": "[sft]", "data.pairs": args.pairs, "model.path": args.model, "model.device": args.device},
            args.set,
        )
    return run / "models/sft"


def rl(rate, seed, start, folder, args):
    run = run_of(rate, seed, folder)
    if (run / "bench-rl.json").exists():
        return
    settings = beside(args.at_once) | {
        "stages": "[rl,bench]",
        "seed": seed,
        "model.path": start,
        "model.device": args.device,
        "rl.steps": args.steps,
        "rl.problems": folder / "problems/rl",
        "rl.train.lr": rate,
        "bench.models": "[base,rl]",
        "bench.samples": args.samples,
        "bench.problems": folder / "bench.jsonl",
    }
    run_recipe(run.with_suffix(".log"), run, settings, args.set)


def run_of(rate, seed, folder):
    return folder / f"rl-{rate}-{seed}"


def faster(verdict):
    """Than the reference, by the lower bound of the measured speedup: what fast_1 counts."""
    return correct(verdict) and verdict["speedup"] > 1


def compiled(verdict):
    return verdict.get("compiled", False)


def cut_off(verdict):
    return verdict.get("error_kind") == "truncated"


def wrong(verdict):
    return verdict.get("error_kind") == "mismatch"


def own_and_others(found):
    """problem -> ...: of the generator's held-out problems, and of KernelBench's."""
    own = {problem: values for problem, values in found.items() if problem.startswith("own")}
    return own, {problem: values for problem, values in found.items() if problem not in own}


def verdicts(runs, stage):
    """(problem, verdict) of every sample that has one."""
    for run in runs:
        for trajectory in json.loads((run / f"bench-{stage}.json").read_text()):
            if verdict := trajectory["turns"][0].get("verdict"):
                yield trajectory["problem_id"], verdict


def log_speedups(runs, stage):
    """problem -> [ln(speedup), ...] of the samples that are correct and timed."""
    found = {}
    for problem, verdict in verdicts(runs, stage):
        if correct(verdict) and verdict["speedup"] > 0:
            found.setdefault(problem, []).append(math.log(verdict["speedup"]))
    return found


def table(folder, args):
    print("| rate | problems | | before RL | after | gain, paired by problem |\n| --- | --- | --- | --- | --- | --- |")
    for rate in args.rates.split(","):
        runs = [run_of(rate, seed, folder) for seed in args.seeds.split(",")]
        runs = [run for run in runs if (run / "bench-rl.json").exists()]
        if not runs:
            continue
        for passes in (correct, faster, compiled, cut_off, wrong):
            before, after = (own_and_others(outcomes(runs, stage, 1, passes)) for stage in ("base", "rl"))
            what = {correct: "pass@1", faster: "fast_1"}.get(passes, passes.__name__)
            for name, own_before, own_after in zip(("own", "KernelBench"), before, after, strict=True):
                line = f"{pooled(own_before)} | {pooled(own_after)} | {gain(own_before, own_after)}"
                print(f"| {rate} | {name} | {what} | {line} |")
        before, after = (own_and_others(log_speedups(runs, stage)) for stage in ("base", "rl"))
        for name, own_before, own_after in zip(("own", "KernelBench"), before, after, strict=True):
            both = {problem: logs for problem, logs in own_before.items() if problem in own_after}
            if both:
                print(f"| {rate} | {name} | speed | {len(both)} problems | | {gain(both, own_after)} |")
        for stage in ("base", "rl"):
            spent = verdict_seconds.means([verdict for _, verdict in verdicts(runs, stage)])
            parts = ", ".join(f"{part} {mean:.2f}" for part, mean in spent.items())
            print(f"rate {rate}, a verdict's seconds in the bench of {stage}: {parts}")


def curve(folder, args, parts=6):
    """Pass rate, compile rate and reward of RL's own problems, by parts of the run."""
    for rate in args.rates.split(","):
        for seed in args.seeds.split(","):
            file = run_of(rate, seed, folder) / "steps.jsonl"
            if not file.exists():
                continue
            rows = [row for row in map(json.loads, file.read_text().splitlines()) if row.get("stage") == "rl"]
            size = max(1, len(rows) // parts)
            for first in range(0, len(rows), size):
                part = rows[first : first + size]
                means = {
                    key: sum(row[key] for row in part) / len(part)
                    for key in ("pass_rate", "compile_rate", "reward_mean")
                }
                line = ", ".join(f"{key} {value:.3f}" for key, value in means.items())
                print(f"{rate} seed {seed}, steps {first + 1} to {first + len(part)}: {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pairs", "model", "problems", "output"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--rates", default="3e-6")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--held-out", type=int, default=120)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    folder = args.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not args.table_only:
        make_problems(folder, args)
        start = sft(folder, args)
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            runs = [(rate, seed) for seed in args.seeds.split(",") for rate in args.rates.split(",")]
            for done in [pool.submit(rl, rate, seed, start, folder, args) for rate, seed in runs]:
                done.result()
    table(folder, args)
    curve(folder, args)


if __name__ == "__main__":
    plain_errors.use()
    main()
