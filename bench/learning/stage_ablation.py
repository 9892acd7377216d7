"""What each stage of the data pipeline is worth: SFT on the same collected rows with all stages, and with each one off.

usage: stage_ablation.py PAIRS MODEL PROBLEMS OUTPUT [--variants all,dedup,...] [--at-once 3] [--device cuda:0]
                         [--seeds 1,2,3] [--steps 60] [--held-out 60] [--samples 4] [--set KEY=VALUE ...]
needs TRITONFORGE (the command; ./tritonforge without it)

PAIRS are of `tritonforge data generate` (style wide), PROBLEMS KernelBench's JSON lines, of which no solution is known
here. What is collected from PAIRS is as dirty as what is found in the world, by fixed shares and a seed: see
`collected`. Held-out problems of PAIRS and PROBLEMS are one bench, judged on the CPU in mode plan; the table has each
apart, pooled over the runs of all seeds (which draw the order of training and the bench's samples) with Wilson's
intervals over samples, and in brackets what each run alone gives. What OUTPUT has already is not made again
(--build-only: the data alone; --table-only: nothing at all).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys

from pool_runs import outcomes, wilson

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import plain_errors

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = shlex.split(os.environ.get("TRITONFORGE", str(ROOT / "tritonforge")))
WRONG, COPIES, DAMAGED, CUT = 0.25, 0.3, 0.05, 0.05  # shares of the rows that are right
STAGES = ("clean", "convert", "thinking", "length", "quality", "dedup", "contamination")


def read_pairs(file):
    """A pair's refused attempts are always the list `refinements` here."""
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    for pair in pairs:
        pair["refinements"] = [pair.pop("refinement")] if "refinement" in pair else pair.get("refinements", [])
    return pairs


def collected(pairs, held_out, draw):
    """Rows as a crawl would have them: refused attempts that pass for solutions, copies with another first line, files
    that were cut off or went through another editor, and the answers to the problems of the bench."""
    right = [pair for pair in pairs if pair["split"] == "train"]
    rows = [dict(pair) for pair in right]

    def some(share, change, of=right):
        for number, pair in enumerate(draw.sample(of, min(len(of), round(share * len(right))))):
            rows.append({**pair, "id": f"{pair['id']}_{change.__name__}{number}", "refinements": [], **change(pair)})

    def wrong(pair):
        return {"solution": draw.choice(pair["refinements"])["wrong"], "verified": False}

    def copied(pair):
        header = f"# {pair['id']}: {draw.randrange(10**6)}\n"
        return {"problem": header + pair["problem"], "solution": header + pair["solution"]}

    def damaged(pair):
        return {"problem": "\ufeff" + pair["problem"].replace("\n", "\r\n")}

    def cut(pair):
        return {"solution": pair["solution"][: len(pair["solution"]) * 2 // 3], "verified": False}

    some(WRONG, wrong, [pair for pair in right if pair["refinements"]])
    some(COPIES, copied)
    some(DAMAGED, damaged)
    some(CUT, cut)
    rows += [{**pair, "split": "train"} for pair in held_out]
    draw.shuffle(rows)
    return rows


def config(name, folder, problems, tokenizer):
    options = {
        "clean": {},
        "convert": {"prompt": "kernelbench", "max_turns": 1 if name == "convert" else 3},
        "thinking": {"from": "plan"},
        "tokens": None,
        "length": {"min": 100, "max": 3072},
        "dedup": {"near": 0.8},
        "contamination": {"problems": [str(problems)], "near": 0.8},
        "quality": {"trials": 2, "at_once": os.cpu_count()},
    }
    kept = {stage: given for stage, given in options.items() if stage == "convert" or stage != name}
    return {
        "name": name,
        "output": str(folder / name / "data"),
        "tokenizer": str(tokenizer),
        "seed": 1,
        "sources": [{"pairs": {"path": str(folder / "collected.jsonl")}}],
        "stages": [{stage: given} if given is not None else stage for stage, given in kept.items()],
        "outputs": ["packed"],
    }


def call(log, *arguments):
    with open(log, "a") as out:
        done = subprocess.run([*COMMAND, *map(str, arguments)], stdout=out, stderr=out)
    if done.returncode != 0:
        raise SystemExit(f"{log}: {arguments[0]} ended with {done.returncode}")


def beside(at_once):
    """Settings of a run that shares the machine's cores with at_once - 1 others, and benches all that it is given."""
    cores = max(2, os.cpu_count() // at_once)
    return {"evaluator.workers": cores, "rollout.evaluations": cores, "bench.levels": "[]", "bench.limit": 0}


def run_recipe(log, output, settings, given):
    """The 0.5B recipe with settings, over which `given` (KEY=VALUE, ...) goes; goes on with what output has."""
    settings = settings | dict(entry.split("=", 1) for entry in given)
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    resume = ["--resume"] if output.exists() else []
    call(log, "run", ROOT / "recipes/qwen2.5-coder-0.5b.yaml", *options, "--output", output, *resume)


def build(name, folder, args):
    here = folder / name
    if (here / "data/card.json").exists():
        return
    (here / "data").mkdir(parents=True, exist_ok=True)
    verdicts = folder / "all/data/verdicts.jsonl"
    if name != "all" and verdicts.exists():  # what was judged once
        shutil.copy(verdicts, here / "data/verdicts.jsonl")
    (here / "data.yaml").write_text(json.dumps(config(name, folder, folder / "bench.jsonl", args.model)))
    call(here / "data.log", "data", "build", here / "data.yaml")


def train(name, seed, folder, args):
    here = folder / name
    run = here / f"run-{seed}"
    if (run / "bench-sft.json").exists():
        return
    settings = beside(args.at_once) | {
        "stages": "[sft,bench]",
        "bench.models": "[sft]",
        "seed": seed,
        "bench.turns": f"[{args.turns}]",
        "bench.samples": args.samples,
        "bench.problems": folder / "bench.jsonl",
        "bench.sampling.max_new_tokens": 1536,
        "data": f"{{conversations: {here}/data}}",
        "model.path": args.model,
        "model.device": args.device,
        "sft.steps": args.steps,
    }
    run_recipe(here / f"run-{seed}.log", run, settings, args.set)


def samples_of(runs, turns, own):
    """Whether each sample passed: of the held-out problems of the generator (own), or of KernelBench's."""
    by_problem = outcomes(runs, "sft", turns)
    return [s for problem, all_ in by_problem.items() if problem.startswith("own") == own for s in all_]


def row(name, folder, args):
    card = json.loads((folder / name / "data/card.json").read_text())
    runs = [folder / name / f"run-{seed}" for seed in args.seeds.split(",")]
    runs = [run for run in runs if (run / "bench-sft.json").exists()]
    line = [name, str(sum(split["rows"] for split in card["splits"].values()))]
    for turns in map(int, args.turns.split(",") if runs else ()):
        for own in (True, False):
            samples = samples_of(runs, turns, own)
            low, high = wilson(sum(samples), len(samples))
            pooled = f"{100 * sum(samples) / len(samples):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
            alone = [samples_of([run], turns, own) for run in runs]
            line.append(pooled + " (" + ", ".join(f"{100 * sum(s) / len(s):.1f}" for s in alone) + ")")
    return line


def bench_problems(pairs, problems, count, draw):
    """Held-out pairs of which the bench asks, and its file: theirs and KernelBench's of levels 1 and 2."""
    held_out = [pair for pair in pairs if pair["split"] == "holdout"]
    held_out = draw.sample(held_out, min(count, len(held_out)))
    asked = [
        {"id": f"own_{i}", "level": 1, "problem_id": 10000 + i, "name": f"own_{i}", "code": pair["problem"]}
        for i, pair in enumerate(held_out)
    ]
    given = [json.loads(line) for line in pathlib.Path(problems).read_text().splitlines()]
    given = [problem for problem in given if problem["level"] in (1, 2)]
    return held_out, asked + draw.sample(given, min(80, len(given)))


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make(variants, folder, args):
    """The data of all variants, then a run of each with each seed."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    pairs = read_pairs(args.pairs)
    held_out, asked = bench_problems(pairs, args.problems, args.held_out, draw)
    write_lines(folder / "bench.jsonl", asked)
    write_lines(folder / "collected.jsonl", collected(pairs, held_out, draw))
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        if "all" in variants:  # first: the others take its verdicts
            build("all", folder, args)
        for done in [pool.submit(build, name, folder, args) for name in variants]:
            done.result()
        if not args.build_only:
            runs = [(name, seed) for seed in args.seeds.split(",") for name in variants]
            for done in [pool.submit(train, name, seed, folder, args) for name, seed in runs]:
                done.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pairs", "model", "problems", "output"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--variants", default=",".join(("all", *STAGES)))
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--held-out", type=int, default=60)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--turns", default="1")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    folder = args.output.resolve()
    variants = args.variants.split(",")
    if not args.table_only:
        make(variants, folder, args)
    if args.build_only:
        return
    turns = [f"{which}, up to {n} turns" for n in args.turns.split(",") for which in ("own", "KernelBench")]
    print("| " + " | ".join(("without", "rows", *turns)) + " |\n" + "| --- " * (2 + len(turns)) + "|")
    for name in variants:
        print("| " + " | ".join(row(name, folder, args)) + " |", flush=True)


if __name__ == "__main__":
    plain_errors.use()
    main()
