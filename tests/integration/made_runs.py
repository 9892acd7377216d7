"""Run folders as the orchestrator writes them, made up: for the page, reports, comparisons and traces."""

import json
import math
import random
import time

PROBLEMS = [f"level{1 + i % 3}_{i}_{name}" for i, name in enumerate(("relu", "softmax", "layer_norm", "matmul", "sum"))]
SOURCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)  # one block a program
    x = tl.load(x_ptr + i, i < n)
    tl.store(out_ptr + i, {formula}, i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), {block}),)](x, out, x.numel(), {block})
        return out
"""
PROFILE = {
    "kernels": [
        {"name": "kernel", "configuration": "B 64", "registers": 32, "spilled_bytes": 0, "shared": 0, "warps": 4,
         "occupancy": 0.75, "share": 0.9, "ms": 0.021}
    ],
    "torch_share": 0.1, "floor_ms": 0.015, "bytes_per_s": 2.1e12, "peak_bytes_per_s": 3.35e12, "flops_per_s": 1e11,
    "peak_flops_per_s": 6.7e13, "baselines": {"eager": 0.04}, "clock_mhz": 1980, "power_w": 500, "temperature": 50,
    "throttled": "",
}  # fmt: skip


def verdict(correct=True, compiled=True, speedup=0.0, flags=(), diagnostics="", **more):
    stage = "timed" if speedup else "correct" if correct else "launched" if compiled else "imported"
    kind = "" if correct else "mismatch" if compiled else "compile_error"
    cheated = any(flag["cheat"] for flag in flags)
    return {
        "stage": stage, "compiled": compiled, "correct": correct, "cheated": cheated, "speedup": speedup,
        "error_kind": kind, "diagnostics": diagnostics, "flags": list(flags), "compile_targets": {"sm_90": "ok"},
    } | more  # fmt: skip


def turn(formula="tl.maximum(x, 0.0)", block=1024, reward=0.8, begun=None, **said):
    code = KERNEL.format(formula=formula, block=block)
    feedback = said.pop("feedback", None)
    one = {
        "text": f"Here it is.\n```python\n{code}```", "code": code, "verdict": verdict(**said), "reward": reward,
        "status": "completed", "generate_s": 1.4, "evaluate_s": 0.3, "response_tokens_count": 212,
    }  # fmt: skip
    if begun is not None:
        one |= {"generate_begun": begun, "evaluate_begun": begun + 1.45}
    return one | ({"feedback": feedback} if feedback else {})


def trajectory(number, step, turns, problem=PROBLEMS[0], **more):
    returns = [one["reward"] for one in turns]
    return {
        "id": f"rl-{step}-{number}.0", "group_id": f"rl-{step}-{number}", "problem_id": problem, "step": step,
        "temperature": 1.0, "reward": returns[0], "turn_returns": returns, "advantages": [0.1] * len(turns),
        "carries_loss": [True] * len(turns), "turns": turns,
    } | more  # fmt: skip


def rl_step(step, rng, now):
    learned = 1 - math.exp(-step / 300)
    parts = {"forward": 0.8, "backward": 1.6, "loss": 0.1, "update": 0.2, "scores": 0.5, "pack": 0.05, "wait": 0.0}
    figures = {f"seconds_{name}": value * (0.9 + 0.2 * rng.random()) for name, value in parts.items()}
    collect, train, sync = 6 + rng.random(), sum(figures.values()) + 0.1, 0.3
    return figures | {
        "stage": "rl", "step": step, "time": now, "loss": 0.02 * (rng.random() - 0.5), "grad_norm": 0.4 + rng.random(),
        "reward_mean": 0.2 + 0.45 * learned + 0.08 * (rng.random() - 0.5),
        "pass_rate": 0.25 + 0.5 * learned + 0.1 * (rng.random() - 0.5),
        "compile_rate": min(1, 0.6 + 0.35 * learned + 0.06 * (rng.random() - 0.5)), "lr": 1e-6, "kl": 0.01 * learned,
        "entropy": 0.6 - 0.3 * learned, "turns_mean": 2.2 - 0.6 * learned, "response_tokens": 9000 + 500 * rng.random(),
        "train_rollout_logprob_abs_diff": 1e-5 * (1 + rng.random()), "on_policy_fraction": 1.0, "tokens": 40000,
        "trajectories": 32, "failed": 0, "generate_request_s": 60.0, "evaluate_request_s": 30.0, "collect_s": collect,
        "train_s": train, "sync_s": sync, "seconds": collect + train + sync + 0.05, "memory_gib": 30.2,
    }  # fmt: skip


def roles(url="http://127.0.0.1:1"):
    def role(name, state, detail, **figures):
        return {"name": name, "state": state, "detail": detail, "restarts": 0, "pid": 1, "host": "", "url": url,
                "figures": figures}  # fmt: skip

    def engine(n, version, free):
        return role(f"engine-{n}", "green", "", running_sequences=12 + n, waiting_sequences=3, kv_tokens_free=free,
                    kv_tokens_total=100000, weight_version=version)  # fmt: skip

    return [
        engine(0, 60, 34000), engine(1, 59, 61000), role("router", "green", "2 of 2 engines", waiting_requests=0),
        role("evaluator", "yellow", "14 waiting for 4 workers", busy=4, waiting=14, workers=4),
        role("buffer", "green", "", queued_samples=24, running_trajectories=8, generating=5, evaluating=3,
             trajectories=1920),
        role("trainer", "red", "killed by signal 9; restarting from checkpoint 58"),
        role("dashboard", "green", ""),
    ]  # fmt: skip


ROWS = [
    {"name": "base", "label": "base", "turns": 1, "samples": 200, "failed": 0, "compile_rate": 0.115,
     "pass_at_1": 0.02, "ci95": [0.008, 0.05]},
    {"name": "rl", "label": "SFT+RL", "turns": 1, "samples": 200, "failed": 2, "compile_rate": 0.93, "pass_at_1": 0.68,
     "ci95": [0.612, 0.741], "fast_p": {"1.0": 0.31}, "geo_mean_speedup": 1.21},
    {"name": "rl", "label": "SFT+RL", "turns": 3, "samples": 200, "failed": 0, "compile_rate": 0.975,
     "pass_at_1": 0.79, "ci95": [0.728, 0.841], "single_turn_pass_at_k": 0.74},
]  # fmt: skip
RECIPE = "name: {name}\nseed: {seed}\nrl:\n  steps: 1000\n  sampling:\n    temperature: {temperature}\n"


def samples(step, rng):
    """What a step is likely to have: solved more often as it goes on, with some failures, cheats and doubts."""
    for number in range(4):
        problem = PROBLEMS[(step + number) % len(PROBLEMS)]
        draw, begun = rng.random(), 1795400000.0 + 10 * step
        if draw < 0.04:
            cheat = {"name": "no_kernel_launched", "cheat": True, "evidence": "no launch was seen"}
            turns = [turn(reward=-1, begun=begun, correct=True, flags=[cheat])]
        elif draw < 0.25 - step / 6000:
            message = "The kernel does not compile: name 'tl' is not defined"
            turns = [turn(reward=-0.1, begun=begun, correct=False, compiled=False, diagnostics="NameError: tl")]
            turns[0]["feedback"] = message
            turns.append(
                turn(formula="tl.abs(x)", reward=0.3, begun=begun + 2, correct=False, diagnostics="worst at [3]")
            )
        elif draw < 0.6 - step / 4000:
            doubt = {"name": "trivial_reference", "cheat": False, "evidence": "the output is constant"}
            turns = [
                turn(
                    "tl.abs(x)",
                    reward=0.3,
                    begun=begun,
                    correct=False,
                    feedback="It is wrong at [3, 17].",
                    flags=[doubt],
                ),
                turn(reward=0.8, begun=begun + 2, speedup=1.3, profile=PROFILE),
            ]
        else:
            turns = [turn(reward=0.8, block=256, begun=begun, speedup=0.5 + rng.random(), profile=PROFILE)]
        yield trajectory(number, step, turns, problem)


def write_run(folder, steps=60, seed=1, temperature=1.0, repeat=1, **status):
    """`repeat` times the trajectories, under other ids: many, quickly."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, start = random.Random(seed), 1795400000.0
    lines = [
        {"stage": "sft", "step": i, "time": start + i, "loss": 0.4 + 3.2 * math.exp(-i / 40) + 0.15 * rng.random(),
         "seconds": 0.4, "seconds_forward": 0.12, "seconds_backward": 0.22, "lr": 1e-5, "grad_norm": 1.0}
        for i in range(1, 201)
    ]  # fmt: skip
    lines += [rl_step(i, rng, start + 200 + 10 * i) for i in range(1, steps + 1)]
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open(folder / "trajectories.jsonl", "w") as file:
        for step in range(1, steps + 1):
            for one in samples(step, rng):
                text = json.dumps(one) + "\n"
                file.writelines(text.replace('.0"', f'.{n}"', 1) for n in range(repeat))
    (folder / "problems.jsonl").write_text("".join(json.dumps({"id": p, "source": SOURCE}) + "\n" for p in PROBLEMS))
    (folder / "recipe.yaml").write_text(RECIPE.format(name=folder.name, seed=seed, temperature=temperature))
    (folder / "origin.json").write_text(json.dumps({"commit": "1c7bc99", "machine": {"cpus": 2}}))
    (folder / "state.json").write_text(json.dumps({"rows": ROWS}))
    (folder / "result.json").write_text(json.dumps({"stages": ROWS, "wall_s": {"rl": 600.0}, "seed": seed}))
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs/engine-0.log").write_text("engine-0 ready\n")
    now = {"run": folder.name, "state": "running", "reason": "", "stage": "rl", "time": time.time(), "started": start,
           "eta_s": 312, "run_eta_s": 400, "done": ["bench-base", "sft"], "left": ["rl", "bench-rl"], "roles": roles(),
           "progress": {"done": steps, "total": 2 * steps}}  # fmt: skip
    (folder / "status.json").write_text(json.dumps(now | status))
    return folder
