"""Pools the benches of several runs (seeds) of one recipe: pass@1 a stage, and what one stage gained on another.

usage: bench/learning/pool_runs.py RUN RUN ...        each with bench-base.json, bench-sft.json, bench-rl.json

The pooled interval is Wilson's over all samples: what these problems give. The gain is paired by problem and its
interval is a bootstrap over problems: what other problems of the kind would give. Single turn: the first turn of each
trajectory.
"""

import itertools
import json
import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import plain_errors


def wilson(passed, n, z=1.96):
    p, d = passed / n, 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d
    middle = (p + z * z / (2 * n)) / d
    return middle - half, middle + half


def correct(verdict):
    return verdict.get("correct", False)


def outcomes(runs, stage, turns, passes=correct):
    """problem -> [passed, ...] of all runs: whether one of a sample's turns has a verdict that passes."""
    by_problem = {}
    for run in runs:
        for trajectory in json.loads((run / f"bench-{stage}.json").read_text()):
            verdicts = [turn.get("verdict") or {} for turn in trajectory["turns"][:turns]]
            by_problem.setdefault(trajectory["problem_id"], []).append(any(passes(v) for v in verdicts))
    return by_problem


def pooled(by_problem):
    """Pass rate of all samples with Wilson's interval."""
    values = [passed for problem in by_problem.values() for passed in problem]
    low, high = wilson(sum(values), len(values))
    return f"{sum(values) / len(values):.1%} [{max(low, 0):.1%}, {high:.1%}]"


def gain(before, after):
    """Mean over problems of what their pass rate gained, with a bootstrap over problems."""
    gains = [sum(after[p]) / len(after[p]) - sum(v) / len(v) for p, v in before.items()]
    rng = random.Random(0)
    means = sorted(sum(rng.choices(gains, k=len(gains))) / len(gains) for _ in range(4000))
    return f"{sum(gains) / len(gains):+.1%} [{means[100]:+.1%}, {means[3899]:+.1%}]"


def main():
    runs = [pathlib.Path(name) for name in sys.argv[1:]]
    if not runs:
        sys.exit(__doc__)
    stages = []
    for stage in ("base", "sft", "rl"):
        without = [str(run) for run in runs if not (run / f"bench-{stage}.json").exists()]
        if not without:
            stages.append(stage)
        elif len(without) < len(runs):
            print(f"{stage} is left out: no bench-{stage}.json in {', '.join(without)}", file=sys.stderr)
    if not stages:
        sys.exit(f"no stage's bench-STAGE.json is in all of {', '.join(map(str, runs))}")
    for turns, name in ((1, "single"), (3, "up to 3 turns")):
        found = {stage: outcomes(runs, stage, turns) for stage in stages}
        for stage, by_problem in found.items():
            samples = sum(map(len, by_problem.values()))
            print(f"{name:14} {stage:5} {samples:5} samples  pass@1 {pooled(by_problem)}")
        for before, after in itertools.pairwise(stages):
            change = gain(found[before], found[after])
            print(f"{name:14} {before} -> {after}: {change} over {len(found[before])} problems")


if __name__ == "__main__":
    plain_errors.use()
    main()
