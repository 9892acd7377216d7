"""`tritonforge run` as a whole, on a small plan: it ends with a table and result.json; roles killed with -9 in the
middle of a step and a run stopped by Ctrl-C and resumed give bit for bit the weights of the undisturbed run."""

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import time

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
STEPS = 5

# Without a baseline every group teaches something: of three samples of a model that has hardly learned, most groups
# have no variance and would leave the weights as they are.
RECIPE = f"""
extends: {ROOT}/recipes/quickstart.yaml
name: small
dashboard_port: 0
data: {{verify: 3}}
sft: {{steps: 3, tokens_per_step: 1024, train: {{checkpoint_interval: 2}}}}
rollout: {{max_turns: 2, concurrency: 16, advantage: none}}
rl: {{steps: {STEPS}, prompts_per_step: 2, samples_per_prompt: 3, sampling: {{max_new_tokens: 300}},
      train: {{checkpoint_interval: 2}}}}
bench: {{limit: 2, samples: 1, turns: [1, 2], sampling: {{max_new_tokens: 300}}}}
engine: {{max_running: 16, kv_cache_tokens: 16384}}
evaluator: {{num_correct_trials: 1}}
"""


class Run:
    def __init__(self, folder, *flags):
        folder.mkdir(exist_ok=True)
        recipe = folder / "small.yaml"
        recipe.write_text(RECIPE)
        self.output = folder / "run"
        self.process = subprocess.Popen(
            [BINARY, "run", str(recipe), "--output", str(self.output), *flags],
            cwd=ROOT,
            text=True,
            env=dict(os.environ, TRITONFORGE_ROOT=str(ROOT)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(self, code=0):
        said, _ = self.process.communicate(timeout=400)
        assert self.process.returncode == code, said[-4000:]
        return said

    def steps(self, stage):
        path = self.output / "steps.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [step for step in map(json.loads, lines) if step["stage"] == stage]

    def wait_for_rl_step(self, count):
        deadline = time.monotonic() + 300
        while len(self.steps("rl")) < count:
            assert self.process.poll() is None, self.process.stdout.read()[-4000:]
            assert time.monotonic() < deadline, "no progress"
            time.sleep(0.05)

    def pid_of(self, role):
        roles = {item["name"]: item for item in json.loads((self.output / "status.json").read_text())["roles"]}
        return roles[role]["pid"]

    def weights(self, stage="rl"):
        return (self.output / "models" / stage / "model.safetensors").read_bytes()

    def trained(self):
        """Trajectories of every committed RL lease, as the buffer's database holds them."""
        with sqlite3.connect(f"file:{self.output}/buffer.sqlite?mode=ro", uri=True) as db:
            return db.execute("SELECT * FROM leases").fetchall()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("undisturbed") / "a")
    run.said = run.finish()
    return run


def test_ends_with_a_table_and_a_result(undisturbed):
    result = json.loads((undisturbed.output / "result.json").read_text())
    assert [(row["name"], row["turns"]) for row in result["stages"]] == [
        (name, turns) for name in ("base", "sft", "rl") for turns in (1, 2)
    ]
    for row in result["stages"]:
        assert row["samples"] == 2 and 0 <= row["ci95"][0] <= row["pass_at_1"] <= row["ci95"][1] <= 1, row
    assert result["wall_s"].keys() >= {"data", "sft", "rl", "bench"} and result["seed"] == 1
    assert "SFT+RL" in undisturbed.said
    rl = undisturbed.steps("rl")
    assert [step["step"] for step in rl] == list(range(1, STEPS + 1))
    assert all(step["trajectories"] == 6 for step in rl)
    assert all(step["train_rollout_logprob_abs_diff"] < 1e-4 for step in rl), rl
    assert undisturbed.weights("sft") != undisturbed.weights("rl")
    page = undisturbed.output / "report.html"
    subprocess.run([BINARY, "report", str(undisturbed.output), "--output", str(page)], check=True, capture_output=True)
    assert "SFT" in page.read_text()


def test_killed_roles_change_nothing(undisturbed, tmp_path):
    run = Run(tmp_path / "a")
    for step, role in enumerate(("engine-0", "evaluator", "buffer", "trainer"), start=1):
        run.wait_for_rl_step(step)
        time.sleep(0.4)  # into the middle of the next step; whenever it falls, the outcome must be the same
        os.kill(run.pid_of(role), signal.SIGKILL)
    said = run.finish()
    assert run.weights() == undisturbed.weights(), said[-3000:]
    numbers = [step["step"] for step in run.steps("rl")]
    assert sorted(set(numbers)) == list(range(1, STEPS + 1))
    assert len(run.trained()) == len(undisturbed.trained())


def test_ctrl_c_and_resume(undisturbed, tmp_path):
    run = Run(tmp_path / "a")
    run.wait_for_rl_step(2)
    run.process.send_signal(signal.SIGINT)
    said, _ = run.process.communicate(timeout=60)
    assert run.process.returncode != 0 and "--resume" in said.splitlines()[-1], said[-2000:]
    assert not list(pathlib.Path("/dev/shm").glob(f"tritonforge-{run.process.pid}*"))
    again = Run(tmp_path / "a", "--resume")
    again.finish()
    assert again.weights() == undisturbed.weights()
    refused = Run(tmp_path / "a")
    assert "--resume" in refused.finish(code=2)


def test_the_best_model_on_held_out_problems_is_the_result(tmp_path):
    """With an algorithm by name, and dynamic sampling."""
    holdout = "{every: 2, problems: problems/quickstart/holdout, limit: 2, samples: 1}"
    said = Run(
        tmp_path / "a",
        *("--set", "stages=[sft, rl]", "--set", "rl.steps=3", "--set", f"rl.validation={holdout}"),
        *("--set", "rl.algorithm=dapo", "--set", "rl.refills=1", "--set", "rollout.advantage=grpo"),
    )
    output = said.finish()
    measured = [json.loads(line) for line in (said.output / "validation.jsonl").read_text().splitlines()]
    assert [row["step"] for row in measured] == [0, 2, 3], output[-3000:]
    assert all(row["samples"] == 2 and row["failed"] == 0 and 0 <= row["pass_rate"] <= 1 for row in measured)
    best = [row for row in measured if row["best"]][-1]
    assert best["pass_rate"] == max(row["pass_rate"] for row in measured)
    assert said.weights("rl") == said.weights("best")
    assert (said.output / "models/rl-last").exists() == (best["step"] != 3)
    # Two groups a step, each replaced once where it taught nothing.
    for step in said.steps("rl"):
        assert 2 <= step["groups"] <= 4, step
        assert step["trajectories"] == 3 * step["groups"]
