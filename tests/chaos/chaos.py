"""Faults at random instants of all stages of small runs, by a seed: `make chaos SEED=1 FAULTS=24 VARIANT=plain`.

Each run must end with bit for bit the weights, trajectories and table of the undisturbed run, and its ledger must hold
each step's lease once. A run that ends with an error must say `--resume`, which is then done as a user would do it.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import cluster

import buffer_file

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
STEPS = 6
END_S = 300  # by when a run must have ended after its last fault

# Without a baseline every group teaches something, so that each step changes the weights.
RECIPE = f"""
extends: {ROOT}/recipes/quickstart.yaml
name: chaos
dashboard_port: 0
data: {{verify: 3}}
sft: {{steps: 6, tokens_per_step: 1024, train: {{checkpoint_interval: 2}}}}
rollout: {{max_turns: 2, concurrency: 16, advantage: none}}
rl: {{steps: {STEPS}, prompts_per_step: 2, samples_per_prompt: 3, sampling: {{max_new_tokens: 200}},
      train: {{checkpoint_interval: 2, lr: 1.0e-3}}}}
bench: {{limit: 2, samples: 1, turns: [1, 2], sampling: {{max_new_tokens: 200}}}}
engine: {{max_running: 16, kv_cache_tokens: 16384}}
evaluator: {{num_correct_trials: 1}}
supervisor: {{hung_after_s: 4, start_timeout_s: 40, max_restarts: 50}}
"""


# What a run does beside the plain way; with refills the groups are compared, so that some of them teach nothing.
HOLDOUT = "{every: 2, problems: problems/quickstart/holdout, limit: 2, samples: 1}"
VARIANTS = {
    "plain": [],
    "validation": [f"rl.validation={HOLDOUT}"],
    "refills": ["rl.refills=2", "rollout.advantage=grpo"],
    "generators": ["rollout.generators=2"],
    "replay": ["rl.replay={groups: 1, steps: 3}"],
    "ranks": ["placement.actor.dp=2"],
    "cluster": [],  # over three machines (cluster.py); needs root, sshd and tc
}


class Run:
    """One folder, and the `tritonforge run` that is under way in it, started again with --resume where it ended."""

    def __init__(self, folder, flags):
        self.flags = flags
        folder.mkdir(parents=True, exist_ok=True)
        self.recipe, self.output, self.said = folder / "chaos.yaml", folder / "run", folder / "said.txt"
        self.recipe.write_text(RECIPE)
        self.starts = 0
        self.start()

    def start(self):  # --resume where a run was begun: it may have been killed before that
        flags = ["--resume"] if (self.output / ".lock").exists() else []
        self.starts += 1
        self.started = time.time()
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                [BINARY, "run", str(self.recipe), "--output", str(self.output), *self.flags, *flags],
                cwd=ROOT,
                env=dict(os.environ, TRITONFORGE_ROOT=str(ROOT)),
                stdout=said,
                stderr=said,
            )

    def roles(self):
        """{name: pid} as the orchestrator noted them last; empty while it has not. trainer/1 is a trainer's rank 1."""
        try:
            roles = json.loads((self.output / "status.json").read_text())["roles"]
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return {
            role["name"] + (f"/{rank}" if rank else ""): pid for role in roles for rank, pid in enumerate(role["pids"])
        }

    def where(self):
        try:
            status = json.loads((self.output / "status.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return "starting"
        if status["time"] < self.started:  # of the start before
            return "starting"
        return f"{status['stage']} {status['progress']['done']}/{status['progress']['total']}"

    def go_on_where_it_ended(self):
        """False: it ended right."""
        code = self.process.poll()
        if code is None:
            return True
        if code == 0:
            return False
        if code > 0:  # a failure of its own, or a signal that it answered: it says what to do
            last = self.said.read_text(errors="replace").strip().splitlines()[-1]
            assert "--resume" in last, last
        self.start()
        return True

    def wait(self):
        deadline = time.monotonic() + END_S
        while self.go_on_where_it_ended():
            assert time.monotonic() < deadline, f"no end: {self.where()}\n{self.said.read_text()[-3000:]}"
            time.sleep(0.05)

    def outcome(self):
        """What must be the same bit for bit, however the run went."""
        result = json.loads((self.output / "result.json").read_text())
        files = sorted((self.output / "models").glob("*/model.safetensors"))
        weights = {file.parent.name: file.read_bytes() for file in files}
        assert {"sft", "rl"} <= weights.keys(), weights.keys()
        with sqlite3.connect(f"file:{self.output}/buffer.sqlite?mode=ro", uri=True) as db:
            bodies = list(buffer_file.trajectories(db))
            ledger = sorted(db.execute("SELECT lease_id, step FROM commits"))
            states = {state for (state,) in db.execute("SELECT DISTINCT state FROM groups")}
        assert states == {"committed"}, states
        assert [entry for entry in ledger if entry[0].startswith("rl-")] == [
            (f"rl-step-{step}", step) for step in range(1, STEPS + 1)
        ], ledger
        lines = map(json.loads, (self.output / "steps.jsonl").read_text().splitlines())
        steps = {(line["stage"], line["step"]): [line["loss"], line.get("groups")] for line in lines}
        measured = self.output / "validation.jsonl"
        validation = list(map(json.loads, measured.read_text().splitlines())) if measured.exists() else []
        # Without log_probs: their last bits follow from which sequences shared a batch, in undisturbed runs too.
        kept = ("prompt_tokens", "response_tokens", "weight_versions", "reward", "status", "text")
        trajectories = {
            body["id"]: [body["reward"], body["advantages"]] + [[turn[key] for key in kept] for turn in body["turns"]]
            for body in bodies
        }
        return {
            "table": result["stages"],
            "seed": result["seed"],
            "weights": weights,
            "trajectories": trajectories,
            "ledger": ledger,
            "steps": steps,
            "validation": validation,
        }


# --- Faults: each takes the run and a random generator, and says what it did, or None where there was nothing to do ---


def pick(run, rng, names=None):
    roles = [role for role in sorted(run.roles().items()) if names is None or role[0] in names]
    return rng.choice(roles) if roles else (None, None)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def kill(run, rng):
    name, pid = pick(run, rng)
    return name and send(pid, signal.SIGKILL) and f"kill -9 {name}"


def hang(run, rng):
    name, pid = pick(run, rng)
    return name and send(pid, signal.SIGSTOP) and f"SIGSTOP {name}"


def pause(run, rng):
    name, pid = pick(run, rng)
    if not name or not send(pid, signal.SIGSTOP):
        return None
    time.sleep(rng.uniform(0.2, 2))
    send(pid, signal.SIGCONT)
    return f"SIGSTOP {name}, SIGCONT"


def cut(run, rng):
    """Every TCP connection of a role is shut down under it."""
    name, pid = pick(run, rng)
    libc, count = ctypes.CDLL(None, use_errno=True), 0
    handle = libc.syscall(434, pid, 0) if name else -1  # pidfd_open
    if handle < 0:
        return None
    try:
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            if not os.readlink(entry).startswith("socket:"):
                continue
            fd = libc.syscall(438, handle, int(entry.name), 0)  # pidfd_getfd
            if fd < 0:
                continue
            with socket.socket(fileno=fd) as connection:
                try:
                    connection.getpeername()
                    connection.shutdown(socket.SHUT_RDWR)
                    count += 1
                except OSError:
                    continue  # it listens, or is no TCP
    except FileNotFoundError:
        return None  # the process, or the connection, went in between
    finally:
        os.close(handle)
    return count and f"{count} connections of {name} cut"


def disk_full(run, rng):
    """No file of the process may grow beyond a size that it has already passed."""
    name, pid = pick(run, rng, ("trainer", "buffer"))
    if not name or rng.random() < 0.2:
        name, pid = "orchestrator", run.process.pid
    unlimited = resource.RLIM_INFINITY
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, unlimited))
        time.sleep(rng.uniform(0.5, 2))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    except ProcessLookupError:
        pass
    return f"disk full for {name}"


def corrupt(run, rng):
    """The published weights are damaged, and an engine comes back and asks for them."""
    names = [
        line.split()[-1]
        for file in run.output.glob("trainer-*.yaml")
        for line in file.read_text().splitlines()
        if line.startswith("run_id:")
    ]
    shared = pathlib.Path("/dev/shm")
    files = [file for name in names for file in shared.glob(f"tritonforge-{name}/weights-*.safetensors")]
    name, pid = pick(run, rng, ("engine-0",))
    if not files or not name:
        return None
    try:
        with files[0].open("r+b") as file:
            file.seek(-64, os.SEEK_END)
            file.write(bytes(rng.randrange(256) for _ in range(64)))
    except FileNotFoundError:
        return None
    return send(pid, signal.SIGKILL) and f"{files[0].name} damaged, kill -9 {name}"


def port_taken(run, rng):
    name, pid = pick(run, rng)
    if not name:
        return None
    arguments = pathlib.Path(f"/proc/{pid}/cmdline")
    try:
        words = arguments.read_bytes().split(b"\0")
    except FileNotFoundError:
        return None
    if b"--port" not in words or not send(pid, signal.SIGKILL):
        return None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            try:
                listener.bind(("127.0.0.1", int(words[words.index(b"--port") + 1])))
                listener.listen()
                break
            except OSError:
                time.sleep(0.01)  # the killed process still has it
        time.sleep(rng.uniform(0.2, 1.5))
    return f"kill -9 {name}, its port taken"


def orchestrator(run, rng):
    number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
    if not send(run.process.pid, number):
        return None
    if number == signal.SIGINT and rng.random() < 0.5:
        time.sleep(rng.uniform(0, 1))
        send(run.process.pid, signal.SIGINT)
    run.process.wait(END_S)
    return f"{number.name} to the orchestrator"


def orchestrator_pause(run, rng):
    if not send(run.process.pid, signal.SIGSTOP):
        return None
    time.sleep(rng.uniform(0.2, 3))
    send(run.process.pid, signal.SIGCONT)
    return "SIGSTOP the orchestrator, SIGCONT"


def kill_rank(run, rng):
    """A rank that answers nobody, alone."""
    name, pid = pick(run, rng, [name for name in run.roles() if "/" in name])
    return name and send(pid, signal.SIGKILL) and f"kill -9 {name}"


FAULTS = [kill, kill, kill, hang, pause, cut, disk_full, corrupt, port_taken]
FAULTS += [orchestrator, orchestrator, orchestrator_pause]


@dataclasses.dataclass
class Report:
    faults: int = 0
    runs: int = 0
    resumes: int = 0


def one_run(folder, flags, kinds, rng, faults, gap_s, say):
    """A run with at most `faults` faults of these kinds; returns it and how many there were."""
    run, count = Run(folder, flags), 0
    deck = []
    while count < faults:
        wait_s, in_a_stage = rng.uniform(0.1, 2 * gap_s), rng.random() < 0.8
        since = time.monotonic()
        while (under_way := run.go_on_where_it_ended()) and time.monotonic() < since + wait_s:
            time.sleep(0.02)
            if in_a_stage and run.where().startswith("starting"):
                since = time.monotonic()
        if not under_way:
            break
        if not deck:  # every kind before one comes again
            deck = rng.sample(kinds, len(kinds))
        where, done = run.where(), deck.pop()(run, rng)
        if done:
            count += 1
            say(f"  {count:3} at {where}: {done}")
    run.wait()
    return run, count


def compare(outcome, expected):
    for key, value in expected.items():
        assert outcome[key] == value, f"'{key}' differs from the undisturbed run's: {difference(outcome[key], value)}"


def difference(got, wanted):
    if isinstance(wanted, dict):
        keys = sorted(key for key in wanted.keys() | got.keys() if wanted.get(key) != got.get(key))
        return f"{len(keys)} of {len(wanted)}, first {keys[:3]}"
    return f"{got} instead of {wanted}"


def campaign(folder, seed, faults, gap_s=4.0, variant="plain", say=lambda text: print(text, flush=True)):
    rng, report = random.Random(seed), Report()
    flags = [word for setting in VARIANTS[variant] for word in ("--set", setting)]
    reference = Run(folder / "undisturbed", flags)  # of a cluster, too, on this machine alone
    reference.wait()
    assert reference.starts == 1, reference.said.read_text()[-3000:]
    expected = reference.outcome()
    with contextlib.ExitStack() as around:
        kinds = FAULTS + ([kill_rank] * 3 if variant == "ranks" else [])
        if variant == "cluster":
            nodes, more = around.enter_context(cluster.nodes(folder / "machines"))
            flags, kinds = flags + more, FAULTS + cluster.faults(nodes)
        while report.faults < faults:
            report.runs += 1
            say(f"run {report.runs} ({variant}, seed {seed})")
            place = folder / f"run-{report.runs}"
            run, count = one_run(place, flags, kinds, rng, faults - report.faults, gap_s, say)
            try:
                compare(run.outcome(), expected)
            except AssertionError as error:
                said = run.said.read_text(errors="replace")[-4000:]
                raise AssertionError(f"{error}\n{said}\nfolder {run.output}") from None
            report.faults += count
            report.resumes += run.starts - 1
            say(f"  as undisturbed, bit for bit; {run.starts - 1} resumes")
            shutil.rmtree(place)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=24)
    parser.add_argument("--variant", choices=VARIANTS, default="plain", help="what the runs do beside the plain way")
    parser.add_argument("--gap", type=float, default=4.0, help="mean seconds between two faults")
    parser.add_argument("--folder", type=pathlib.Path, help="kept; a temporary one otherwise")
    options = parser.parse_args()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
    report = campaign(folder, options.seed, options.faults, options.gap, options.variant)
    print(f"{report.faults} faults in {report.runs} runs, {report.resumes} resumes: every run ended right")
    if not options.folder:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
