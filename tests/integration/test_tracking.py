"""A run's figures in TensorBoard, Weights & Biases (offline) and MLflow, read back by their own packages where
`requirements/install --tracking` has installed them; and that a receiver that is dead, slow or absent costs a run
nothing but a line at its end."""

import json
import os
import pathlib
import re
import subprocess
import textwrap
import time

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
PYTHON = subprocess.run(
    [ROOT / "requirements/install", "--tracking-python"], capture_output=True, text=True, check=True
).stdout.strip()
needs_packages = pytest.mark.skipif(
    not os.path.exists(PYTHON), reason="their packages are not installed: requirements/install --tracking"
)
SMALL = ["recipes/quickstart.yaml", "--set", "stages=[sft]", "--set", "sft.steps=3", "--set", "sft.tokens_per_step=256"]
SMALL += ["--set", "dashboard_port=0"]
RL = {
    "stage": "rl", "step": 1, "time": 1700000000.5, "kind": "rl", "loss": 0.25, "pass_rate": 0.5, "reward_mean": -0.125,
    "trajectories": 4, "response_tokens": 100, "collect_s": 1.0, "seconds": 4.0,
}  # fmt: skip
ROW = {"name": "rl", "turns": 3, "samples": 8, "failed": 0, "pass_at_1": 0.5, "ci95": [0.1, 0.9], "compile_rate": 1.0}


def tritonforge(*arguments, code=0, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "MLFLOW_"))}
    environment.update(TRITONFORGE_ROOT=str(ROOT), **variables)
    result = subprocess.run(
        [BINARY, *map(str, arguments)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


def asked(script, *arguments, **variables):
    """What a script said in the receivers' Python."""
    result = subprocess.run(
        [PYTHON, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True, text=True, env=dict(os.environ, **variables), timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture
def folder(tmp_path):
    """A run's folder with two RL steps, one of them cut off, and a row of a bench."""
    run = tmp_path / "run"
    run.mkdir()
    lines = [json.dumps(RL), json.dumps({**RL, "step": 2, "loss": 0.5}), '{"stage": "rl", "st']
    (run / "steps.jsonl").write_text("\n".join(lines))
    (run / "state.json").write_text(json.dumps({"begun": [], "done": [], "wall_s": {}, "rows": [ROW]}))
    (run / "recipe.yaml").write_text("name: small\n")
    return run


READ_EVENTS = """
    import json, sys
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(sys.argv[1])
    events.Reload()
    tags = events.Tags()["scalars"]
    print(json.dumps({tag: [[e.step, e.wall_time, e.value] for e in events.Scalars(tag)] for tag in tags}))
"""


@needs_packages
def test_tensorboard_reads_what_is_written_and_nothing_twice(folder):
    tritonforge("track", folder, "--to", "tensorboard")
    scalars = asked(READ_EVENTS, folder / "tensorboard")
    assert scalars["train/loss"] == [[1, 1700000000.5, 0.25], [2, 1700000000.5, 0.5]]
    assert scalars["passrate/correctness_pass@1"][0][2] == 0.5
    assert scalars["rollout/response_lengths"][0][2] == 25
    assert [point[::2] for point in scalars["eval/turns_3/pass_at_1"]] == [[0, 0.5]]
    # The line that was cut off comes once it is whole; the others are not handed over again.
    with open(folder / "steps.jsonl", "a") as file:
        file.write('ep": 3, "loss": 0.75}\n')
    assert "has 1 points" in tritonforge("track", folder, "--to", "tensorboard").stdout
    assert [point[0] for point in asked(READ_EVENTS, folder / "tensorboard")["train/loss"]] == [1, 2, 3]


def test_a_row_that_is_measured_anew_is_handed_over_again(folder):
    """A run that goes on with more steps takes the row of its stage back, and writes another in its place."""

    def points_of(*rows):
        (folder / "state.json").write_text(json.dumps({"begun": [], "done": [], "wall_s": {}, "rows": rows}))
        said = tritonforge("track", folder, "--to", "tensorboard").stdout
        return int(re.search(r"has (\d+) points", said)[1])

    base = {**ROW, "name": "base", "pass_at_1": 0.25}
    assert points_of(base, ROW) == 2 + 2
    assert points_of(base) == 0
    assert points_of(base, {**ROW, "pass_at_1": 0.75}) == 1
    assert points_of(base, {**ROW, "pass_at_1": 0.75}) == 0


def test_two_at_once_do_not_hand_over_the_same(folder):
    first = subprocess.Popen([BINARY, "track", folder, "--to", "tensorboard", "--follow"], stdout=subprocess.PIPE)
    try:
        end = time.monotonic() + 60
        while not (folder / "tracking/tensorboard.json").exists():
            assert time.monotonic() < end, "the first one hands nothing over"
            time.sleep(0.01)
        refused = tritonforge("track", folder, "--to", "tensorboard", code=1)
        assert "another process hands this run's figures to tensorboard" in refused.stderr
    finally:
        first.terminate()
        said = first.communicate(timeout=60)[0]
    assert b"has 3 points" in said
    assert "has 0 points" in tritonforge("track", folder, "--to", "tensorboard").stdout


@needs_packages
def test_weights_and_biases_keeps_it_offline(folder):
    tritonforge("track", folder, "--to", "wandb", "--python", PYTHON, WANDB_MODE="offline")
    read = """
        import glob, json, struct, sys
        from wandb.proto import wandb_internal_pb2
        # LevelDB's log, after 7 bytes: blocks of 32 KiB of pieces (checksum, length, whole | first | middle | last).
        data = open(glob.glob(sys.argv[1] + "/tracking/wandb/offline-run-*/*.wandb")[0], "rb").read()
        at, whole, rows = 7, b"", []
        while at + 7 <= len(data):
            if 32768 - at % 32768 < 7:
                at += 32768 - at % 32768
                continue
            _, length, kind = struct.unpack_from("<IHB", data, at)
            whole += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind not in (1, 4):
                continue
            record, whole = wandb_internal_pb2.Record.FromString(whole), b""
            if record.HasField("history"):
                items = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
                rows.append(items)
        print(json.dumps(rows))
    """
    rows = asked(read, folder)
    assert [row["train/loss"] for row in rows[:2]] == [0.25, 0.5]
    assert rows[1]["train/step"] == 2 and rows[1]["rollout/step"] == 2
    assert rows[2]["eval/turns_3/pass_at_1"] == 0.5 and rows[2]["eval/step"] == 0


@needs_packages
def test_mlflow_goes_on_with_the_run_that_was_begun(folder):
    tritonforge("track", folder, "--to", "mlflow", "--python", PYTHON, "--project", "kernels")
    with open(folder / "steps.jsonl", "a") as file:
        file.write('ep": 3, "loss": 0.75}\n')
    tritonforge("track", folder, "--to", "mlflow", "--python", PYTHON, "--project", "kernels")
    read = """
        import json, sys
        import mlflow
        mlflow.set_tracking_uri("file://" + sys.argv[1] + "/tracking/mlruns")
        client = mlflow.MlflowClient()
        experiment = client.get_experiment_by_name("kernels")
        runs = client.search_runs([experiment.experiment_id])
        history = client.get_metric_history(runs[0].info.run_id, "train/loss")
        passed = client.get_metric_history(runs[0].info.run_id, "passrate/correctness_pass_at_1")
        print(json.dumps([len(runs), runs[0].info.status, runs[0].info.run_name,
                          [[m.step, m.value] for m in history], [m.value for m in passed]]))
    """
    said = asked(read, folder, MLFLOW_ALLOW_FILE_STORE="true")
    assert said == [1, "FINISHED", "run", [[1, 0.25], [2, 0.5], [3, 0.75]], [0.5, 0.5]]


def test_a_receiver_that_is_absent_dead_or_slow_costs_a_run_one_line(tmp_path):
    """Stand-ins for the two packages: wandb's server is dead, MLflow's never answers. The run has the result of one
    without them, and is not longer than that and the grace that it gives at its end."""
    stand_ins = tmp_path / "packages"
    stand_ins.mkdir()
    (stand_ins / "wandb.py").write_text("def init(**_):\n    raise ConnectionError('the server is\\ndead')\n")
    (stand_ins / "mlflow.py").write_text("def set_tracking_uri(_):\n    import signal\n    signal.pause()\n")
    quiet, told = tmp_path / "quiet", tmp_path / "told"
    tritonforge("run", *SMALL, "--output", quiet)
    tracking = ["--set", "tracking.to=[tensorboard, wandb, mlflow]", "--set", "tracking.grace_s=2"]
    result = tritonforge("run", *SMALL, "--output", told, *tracking, PYTHONPATH=str(stand_ins))
    said = result.stdout + result.stderr
    assert "tracking: wandb ended with 1: tritonforge: wandb: ConnectionError: the server is dead" in said
    assert f"tracking: mlflow has not taken everything within 2 s; tritonforge track {told} --to mlflow hands" in said
    assert "tracking: tensorboard" not in said
    weights = [(run / "models/sft/model.safetensors").read_bytes() for run in (quiet, told)]
    assert weights[0] == weights[1]
    events = list((told / "tensorboard").iterdir())
    assert len(events) == 1 and b"sft/loss" in events[0].read_bytes()
    # Not one of their processes is left.
    assert not [p for p in pathlib.Path("/proc").glob("[0-9]*") if str(told) in command_of(p)]
    # And the rest is handed over by the command that the line names, once the package is there.
    missing = tritonforge("track", told, "--to", "wandb", "--python", "/usr/bin/python3", code=3)
    assert "wandb is not in /usr/bin/python3: /usr/bin/python3 -m pip install wandb" in missing.stderr


def test_what_wandb_had_not_taken_at_its_end_is_handed_over_again(folder, tmp_path):
    """A stand-in that sends only when it finishes, to a server that is dead the first time."""
    stand_ins, taken = tmp_path / "packages", tmp_path / "taken"
    stand_ins.mkdir()
    (stand_ins / "wandb.py").write_text(
        textwrap.dedent("""
            import os
            class Run:
                steps = []
                def define_metric(self, *_, **__): pass
                def log(self, values): self.steps.append(values["train/step"]) if "train/step" in values else None
                def finish(self):
                    if os.environ["SERVER"] == "dead": raise ConnectionError("the server is dead")
                    open(os.environ["SERVER"], "a").write(f"{self.steps}\\n")
            def init(**_): return Run()
        """)
    )

    def track(server, code=0):
        return tritonforge("track", folder, "--to", "wandb", code=code, PYTHONPATH=str(stand_ins), SERVER=str(server))

    assert "the server is dead" in track("dead", code=1).stderr
    assert "has 3 points" in track(taken).stdout
    assert "has 0 points" in track(taken).stdout
    assert taken.read_text() == "[1, 2]\n[]\n"


def command_of(process):
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


@needs_packages
def test_receivers_whose_servers_are_down_do_not_end_a_run(tmp_path):
    """The real packages, and a port where nobody listens."""
    result = tritonforge(  # which ends, though they would try for hours
        "run", *SMALL, "--output", tmp_path / "run", "--set", "tracking.to=[wandb, mlflow]", "--set",
        f"tracking.python={PYTHON}", "--set", "tracking.grace_s=1",
        WANDB_BASE_URL="http://127.0.0.1:9", WANDB_API_KEY="0" * 40, MLFLOW_TRACKING_URI="http://127.0.0.1:9",
        TMPDIR=str(tmp_path),
    )  # fmt: skip
    said = result.stdout + result.stderr
    assert "tracking: wandb" in said and "tracking: mlflow" in said
    # The folders that one that was ended leaves behind are in the run's, not beside everybody's.
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and "wandb" in path.name] == []
