"""The share of candidates that run as a plan, by where they come from: the honest corpus and files of pairs.

needs the built binary (TRITONFORGE_BINARY or ./build/tritonforge)
A pair is one of `tritonforge data generate --unverified` or `data capture --unverified`: an evaluator that has already
chosen among them would have left out what it could not run. Problems that it bars and solutions that are wrong as plans
count as run; what fell back to the candidate's own process, and what could not be judged at all, does not.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "adversarial"))
os.environ.setdefault("TRITONFORGE_ROOT", ROOT)
import plain_errors

import test_corpus
from evaluator_server import Evaluator


def outcome_of(verdict):
    """("plan" | "not a plan" | "barred" | error_kind of what ended before there could be one, why)."""
    if why := verdict["notes"].get("mode_reason"):
        return "not a plan", why.splitlines()[0]
    if verdict["error_kind"] in ("problem_error", "internal"):
        return "barred", verdict["diagnostics"].splitlines()[0]
    if not verdict["trials"]:
        return verdict["error_kind"], verdict["diagnostics"].splitlines()[0]
    return "plan", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", help="files of pairs, JSON lines")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="evaluations at once")
    parser.add_argument("--json", action="store_true", help="prints every outcome that is not a plan")
    options = parser.parse_args()
    sources = {"honest corpus": [(path.stem, *test_corpus.parts(path)) for path in test_corpus.HONEST]}
    for name in options.pairs:
        with open(name) as lines:
            rows = [json.loads(line) for line in lines]
        sources[os.path.basename(name)] = [(row["id"], row["problem"], row["solution"]) for row in rows]
    server = Evaluator("--mode", "plan", "--workers", str(options.workers), candidate_timeout=60)
    print("| candidates | judged | run as a plan | correct | otherwise |\n| --- | --- | --- | --- | --- |")
    others = []
    for source, candidates in sources.items():

        def judge(candidate):
            name, problem, solution = candidate
            verdict = server.judge(solution, problem, num_correct_trials=2, timeout_s=120)
            return name, *outcome_of(verdict), verdict["correct"]

        with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
            outcomes = list(pool.map(judge, candidates))
        counts = collections.Counter(kind for _, kind, _, _ in outcomes)
        judged = len(outcomes) - counts.pop("barred", 0)
        plans = counts.pop("plan", 0)
        rest = ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "none"
        correct = sum(right for *_, right in outcomes)
        share = 100 * plans / max(1, judged)
        print(f"| {source} | {judged} | {plans} ({share:.1f} %) | {correct} | {rest} |", flush=True)
        others += [
            {"source": source, "id": name, "kind": kind, "why": why}
            for name, kind, why, _ in outcomes
            if kind != "plan"
        ]
    for other in others:
        print(json.dumps(other) if options.json else "{source}, {id}: {kind}: {why}".format(**other))
    sys.exit(server.stop())


if __name__ == "__main__":
    plain_errors.use()
    main()
