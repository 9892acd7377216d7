"""A small `tritonforge run` as a process of a test, and a disk that holds it at an instant."""

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import threading
import time

import buffer_file
from test_signals import children_of
from test_trainer import preloaded

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
sft: {{steps: 3, tokens_per_step: 1024, sequences_per_step: 2, train: {{checkpoint_interval: 2}}}}
rollout: {{max_turns: 2, concurrency: 16, advantage: none}}
rl: {{steps: {STEPS}, prompts_per_step: 2, samples_per_prompt: 3, sampling: {{max_new_tokens: 300}},
      train: {{checkpoint_interval: 2, lr: 1.0e-3}}}}
bench: {{limit: 2, samples: 1, turns: [1, 2], sampling: {{max_new_tokens: 300}}}}
engine: {{max_running: 16, kv_cache_tokens: 16384}}
evaluator: {{num_correct_trials: 1}}
"""


def weights_in(folder):
    """Name and bytes of every file of a model's weights: a trainer of several ranks writes one for each."""
    found = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    assert found, f"no weights in {folder}"
    return found


STARTED = []  # every Run of this process of tests


class Run:
    """`tritonforge run` on a recipe in `folder`. It ends with its test (conftest.py)."""

    def __init__(self, folder, *flags, output="run", program=(BINARY,), root=ROOT, text=RECIPE):
        folder.mkdir(exist_ok=True)
        recipe = folder / "small.yaml"
        recipe.write_text(text)
        self.output = folder / output
        self.process = subprocess.Popen(
            [*program, "run", str(recipe), "--output", str(self.output), *flags],
            cwd=root,
            text=True,
            # The key is of servers that were started by hand: a run's own have none.
            env=dict(os.environ, TRITONFORGE_ROOT=str(root), TRITONFORGE_API_KEY="another-server's"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        STARTED.append(self)

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

    def wait_for_line(self, text):
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}")

    def status(self):
        path = self.output / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"stage": "", "roles": [], "progress": {"done": 0}}

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 300
        while not condition():
            assert self.process.poll() is None, self.process.stdout.read()[-4000:]
            assert time.monotonic() < deadline, f"waited for {what}: {self.status()}"
            time.sleep(0.02)

    def pid_of(self, role, rank=0):
        """As status.json says it, which is written once a second."""
        return {item["name"]: item for item in self.status()["roles"]}[role]["pids"][rank]

    def child(self, role):
        """The process of a role as the system knows it, at once."""
        for pid in children_of(self.process.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                if role.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        raise ProcessLookupError(role)

    def weights(self, stage="rl"):
        return weights_in(self.output / "models" / stage)

    def query(self, sql):
        with sqlite3.connect(f"file:{self.output}/buffer.sqlite?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()

    def ledger(self):
        """(lease, step) of every commit, and the weights' versions of every token, by trajectory."""
        versions = {
            trajectory["id"]: [turn["weight_versions"] for turn in trajectory["turns"]]
            for trajectory in buffer_file.read(self.output / "buffer.sqlite")
        }
        return sorted(self.query("SELECT lease_id, step FROM commits")), versions

    def table(self):
        return json.loads((self.output / "result.json").read_text())["stages"]


class HeldDisk:
    """The disk of a run that takes no file NAME from refuse(NAME) to take(NAME), once one waits at most 5 minutes."""

    def __init__(self, folder):
        self.folder = folder / "held"
        self.folder.mkdir()
        self.program = ("env", f"LD_PRELOAD={preloaded(folder, 'hold_sync')}", f"HOLD_SYNC={self.folder}", BINARY)
        self.last = {}

    def refuse(self, *names):
        for name in names:
            (self.folder / name).touch()

    def wait_for_one(self, run, name):
        run.wait_for((self.folder / f"{name}.held").exists, f"a {name} that is written")
        self.last[name] = threading.Timer(300, (self.folder / name).unlink, kwargs={"missing_ok": True})
        self.last[name].daemon = True  # a test that has failed waits for no timer
        self.last[name].start()

    def take(self, name):
        if name in self.last:
            self.last[name].cancel()
        assert (self.folder / name).exists(), f"it waited for {name}"
        (self.folder / name).unlink()
