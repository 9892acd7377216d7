"""A run's folder says how it was made, and `run --like` makes the same again, to the bit, or says why it would not."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))


def tritonforge(*arguments, code=0):
    result = subprocess.run(
        [BINARY, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=240,
        env=dict(os.environ, TRITONFORGE_ROOT=str(ROOT)),
    )  # fmt: skip
    assert result.returncode == code, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    pairs = folder / "pairs.jsonl"
    shutil.copy(ROOT / "problems/quickstart/pairs.jsonl", pairs)
    tritonforge(*command(folder))
    return folder


def command(folder, steps=3):
    small = [
        "stages=[sft]",
        f"sft.steps={steps}",
        "sft.train.schedule=constant",
        "sft.tokens_per_step=256",
        "dashboard_port=0",
        "seed=5",
        f"data.pairs={folder / 'pairs.jsonl'}",
    ]
    flags = [part for value in small for part in ("--set", value)]
    return ["run", "recipes/quickstart.yaml", "--output", folder / "run", *flags]


def test_the_folder_says_how_it_was_made(made):
    origin = json.loads((made / "run/origin.json").read_text())
    version = tritonforge("--version").stdout
    assert f"tritonforge {origin['program']['version']} (commit {origin['program']['commit']}, " in version
    assert origin["seed"] == 5 and len(origin["starts"]) == 1
    assert origin["packages"]["torch"].startswith("2.11.0") and origin["packages"]["triton"] == "3.6.0"
    assert origin["machine"]["cores"] >= 1 and origin["machine"]["kernel"]
    assert set(origin["inputs"]) == {"model.path", "data.pairs"}  # what the stages of this run read
    pairs = origin["inputs"]["data.pairs"]
    assert pairs["bytes"] == (made / "pairs.jsonl").stat().st_size and len(pairs["digest"]) == 32
    tritonforge("run", "recipes/quickstart.yaml", "--resume", "--output", made / "run", code=2)  # another recipe


def test_like_makes_the_same_weights(made):
    result = tritonforge("run", "--like", made / "run", "--set", "dashboard_port=0")
    assert "--like:" not in result.stderr  # nothing differs
    weights = [(made / name / "models/sft/model.safetensors").read_bytes() for name in ("run", "run-again")]
    assert weights[0] == weights[1]


def test_like_refuses_other_data(made):
    pairs = made / "pairs.jsonl"
    whole = pairs.read_bytes()
    pairs.write_bytes(whole + whole.splitlines(keepends=True)[0])
    try:
        flags = ["run", "--like", made / "run", "--output", made / "third", "--dry-run"]
        refused = tritonforge(*flags, code=1).stderr
        assert f"--like: data.pairs ({pairs}) is not what it was: digest" in refused
        assert "--set data.pairs=PATH" in refused
        tritonforge(*flags, "--set", "data.pairs=problems/quickstart/pairs.jsonl")
        pairs.unlink()
        assert f"data.pairs was {pairs}, which is not there" in tritonforge(*flags, code=1).stderr
    finally:
        pairs.write_bytes(whole)


def test_a_run_goes_on_with_the_data_that_it_began_with(made):
    pairs = made / "pairs.jsonl"
    whole = pairs.read_bytes()
    pairs.write_bytes(whole[: whole.index(b"\n") + 1] + whole)
    try:
        tritonforge(*command(made), "--resume")  # nothing reads them any more
        refused = tritonforge(*command(made, steps=4), "--resume", code=1).stderr
        assert f"data.pairs ({pairs}) is not what this run began with: digest" in refused
    finally:
        pairs.write_bytes(whole)
    tritonforge(*command(made, steps=4), "--resume")


def test_like_wants_a_run_and_no_recipe(made):
    assert "there is no run in" in tritonforge("run", "--like", made, code=2).stderr
    assert "name a recipe" in tritonforge("run", code=2).stderr
    assert "--like brings the recipe" in tritonforge("run", "quickstart", "--like", made / "run", code=2).stderr
