"""`tritonforge data build` as a whole: from pairs to files that others read, judged by an evaluator, resumed after a
kill, and trained on."""

import itertools
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

import numpy
import pyarrow
import pyarrow.parquet
import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
PAIRS = ROOT / "problems/quickstart/pairs.jsonl"


def command(*arguments):
    return [BINARY, *map(str, arguments)]


def run(*arguments, code=0):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == code, done.stderr[-2000:]
    return done.stdout if code == 0 else done.stderr


def write_config(folder, pairs, stages, outputs="[jsonl, parquet, packed, megatron]", output="out"):
    config = folder / f"{output}.yaml"
    config.write_text(
        f"name: test\noutput: {folder / output}\ntokenizer: {ROOT}/models/tiny-base\n"
        f"sources:\n  - pairs: {{path: {pairs}}}\nstages: {stages}\noutputs: {outputs}\n"
    )
    return config


def some_pairs(folder, count):
    file = folder / "pairs.jsonl"
    lines = [line for line in PAIRS.read_text().splitlines() if json.loads(line)["split"] == "train"]
    file.write_text("\n".join(lines[:count]) + "\n")
    return file


STAGES = "[clean, convert: {prompt: minimal}, tokens, length: {min: 10, max: 2048}, dedup: {near: 0}]"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    card = json.loads(run("data", "build", write_config(folder, some_pairs(folder, 200), STAGES), "--json"))
    return folder / "out", card


def read_indexed(stem, dtype):
    """Megatron's format by its own description, with nothing of Megatron."""
    index = stem.with_name(stem.name + ".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, sequences, boundaries = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1 and code == {"int32": 4, "uint8": 1}[dtype] and boundaries == sequences + 1
    lengths = numpy.frombuffer(index, "<i4", sequences, 34)
    places = numpy.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    documents = numpy.frombuffer(index, "<i8", boundaries, 34 + 12 * sequences)
    assert list(documents) == list(range(boundaries)) and len(index) == 34 + 20 * sequences + 8
    tokens = stem.with_name(stem.name + ".bin").read_bytes()
    return [numpy.frombuffer(tokens, dtype, n, at) for n, at in zip(lengths, places)]


def packed(folder, split="train"):
    ends = numpy.fromfile(folder / f"packed/{split}.offsets", "<u8")
    tokens = numpy.fromfile(folder / f"packed/{split}.tokens", "<i4")
    mask = numpy.fromfile(folder / f"packed/{split}.mask", "u1")
    return [(tokens[a:b], mask[a:b]) for a, b in itertools.pairwise(ends)]


def test_others_read_what_it_writes(built):
    folder, card = built
    rows = card["splits"]["train"]["rows"]
    lines = [json.loads(line) for line in (folder / "jsonl/train.jsonl").read_text().splitlines()]
    table = pyarrow.parquet.read_table(folder / "parquet/train.parquet").to_pylist()
    assert rows == len(lines) == len(table) == len(packed(folder)) > 150
    for line, row in zip(lines, table):
        assert [m["content"] for m in line["messages"]] == [m["content"] for m in row["messages"]]
        assert line["uuid"] == row["uuid"]
        weights = [m["weight"] for m in line["messages"] if m["role"] == "assistant"]
        assert weights[-1] == 1 and not any(weights[:-1])
    assert any(len(line["messages"]) > 2 for line in lines), "some have a refused attempt"
    tokens, masks = (
        read_indexed(folder / "megatron/train", "int32"),
        read_indexed(folder / "megatron/train_loss_mask", "uint8"),
    )
    for (a, mask), b, other in zip(packed(folder), tokens, masks):
        assert (a == b).all() and (mask == other).all()


def test_megatrons_own_reader_reads_it(built):
    folder, _ = built
    path = subprocess.run([ROOT / "requirements/install", "--megatron"], capture_output=True, text=True, check=True)
    script = f"""
import sys, numpy
sys.path.insert(0, {path.stdout.strip()!r})
from megatron.core.datasets.indexed_dataset import IndexedDataset
data = IndexedDataset({str(folder / "megatron/train")!r})
sums = [int(numpy.asarray(data[i]).sum()) for i in range(len(data))]
print(len(data), sum(sums), int(data.sequence_lengths.sum()))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    ours = packed(folder)
    assert done.stdout.split() == [
        str(len(ours)),
        str(sum(int(tokens.sum()) for tokens, _ in ours)),
        str(sum(len(tokens) for tokens, _ in ours)),
    ]


def test_the_card_is_shown_and_a_row_too(built, tmp_path):
    folder, card = built
    page = tmp_path / "card.html"
    run("data", "stats", folder, "--page", page)
    html = page.read_text()
    assert "<h2>Stages</h2>" in html and html.count("(learned)") >= 5 and "tokens</td>" in html
    shown = run("data", "stats", folder)
    assert "dedup" in shown and "tokens of a row" in shown
    assert json.loads(run("data", "stats", folder, "--json")) == card
    row = run("data", "show", folder / "jsonl/train.jsonl", "--row", 3)
    assert "--- assistant (learned)" in row
    assert run("data", "show", folder, "--row", 3) == row
    assert "has no row" in run("data", "show", folder / "jsonl/train.jsonl", "--row", 99999, code=2)


def test_a_build_takes_the_place_of_the_earlier_one(tmp_path):
    stages = "[clean, convert: {prompt: minimal}, tokens, split: {by: hash, holdout: 0.3}]"
    config = write_config(tmp_path, some_pairs(tmp_path, 30), stages)
    run("data", "build", config)
    assert (tmp_path / "out/packed/holdout.tokens").exists()
    more = ["--set", "outputs=[jsonl]", "--set", "stages=[clean, convert: {prompt: minimal}]"]
    card = json.loads(run("data", "build", config, *more, "--json"))
    assert card["splits"]["train"]["rows"] > 20
    files = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*") if file.is_file()}
    assert files == {"card.json", "card.txt", "dropped.jsonl", "jsonl/train.jsonl"}
    # One that ends early leaves them whole; one that keeps nothing says so.
    run("data", "build", config, "--set", "outputs=[packed]", "--set", "stages=[convert: {prompt: minimal}]", code=2)
    assert json.loads(run("data", "stats", tmp_path / "out", "--json")) == card
    assert (tmp_path / "out/jsonl/train.jsonl").exists()
    pairs = tmp_path / "pairs.jsonl"
    for text, reason in (("", "there is no row in the sources"), ("{broken\n", "1 rows were read and dropped")):
        pairs.write_text(text)
        done = subprocess.run(command("data", "build", config, *more), capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0 and f"nothing was kept: {reason}" in done.stderr
        assert not (tmp_path / "out/jsonl/train.jsonl").exists()


def test_a_run_and_a_build_without_conversations_are_no_data_to_show(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.yaml").write_text("stages: [sft]\n")
    for command in ("show", "stats"):
        refusal = run("data", command, tmp_path / "run", code=2)
        assert refusal.strip().endswith(
            "is a run: `tritonforge report {}` shows it, with its trajectories".format(tmp_path / "run")
        )
    run(
        "data",
        "build",
        write_config(tmp_path, some_pairs(tmp_path, 5), "[clean, convert: {prompt: minimal}]", "[parquet]"),
    )
    refusal = run("data", "show", tmp_path / "out", code=2)
    assert "its build wrote no conversations ('outputs' without jsonl)" in refusal


def test_problems_of_every_form_become_the_same_prompts(tmp_path):
    """KernelBench as a folder, as Parquet, and as the RL rows that the first of these builds wrote."""
    level = sorted((ROOT / "problems/level1").glob("*.py"), key=lambda file: int(file.stem.split("_")[0]))[:12]
    (tmp_path / "bench/level1").mkdir(parents=True)
    for file in level:
        (tmp_path / "bench/level1" / file.name).write_text(file.read_text())
    numbers = [int(file.stem.split("_")[0]) for file in level]
    table = pyarrow.table(
        {
            "code": [file.read_text() for file in level],
            "level": [1] * len(level),
            "name": [file.stem for file in level],
            "problem_id": numbers,
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "bench.parquet")
    prompts = "kernel_bench_triton_all_levels.jsonl"
    written = {}
    for name, path in (("folder", "bench"), ("parquet", "bench.parquet"), ("rows", f"folder/{prompts}")):
        config = tmp_path / f"{name}.yaml"
        config.write_text(
            f"name: test\noutput: {tmp_path / name}\ntokenizer: {ROOT}/models/tiny-base\n"
            f"sources:\n  - problems: {{path: {tmp_path / path}}}\nstages: [convert, tokens]\n"
            "outputs: [jsonl, rl_prompts]\n"
        )
        card = json.loads(run("data", "build", config, "--json"))
        assert card["stages"][-1]["kept"] == len(level)
        written[name] = [json.loads(line) for line in (tmp_path / name / prompts).read_text().splitlines()]
        assert card["splits"]["train"]["prompts"] == len(level) and card["splits"]["train"]["learned"] == 0
        assert not (tmp_path / name / "jsonl/train.jsonl").exists(), "of a prompt there is nothing to learn"
    for row in written["folder"]:
        assert set(row) >= {"prompt", "label", "extra_info", "instance_id"}
    assert [row["prompt"] for row in written["folder"]] == [row["prompt"] for row in written["parquet"]]
    assert [row["prompt"] for row in written["folder"]] == [row["prompt"] for row in written["rows"]]
    assert [row["label"] for row in written["folder"]] == [row["label"] for row in written["rows"]]


def test_a_killed_judgement_repeats_nothing(tmp_path):
    stages = "[convert: {prompt: minimal}, quality: {trials: 1}]"
    pairs = some_pairs(tmp_path, 8)
    first = json.loads(pairs.read_text().splitlines()[0])
    wrong = first | {"id": "wrong", "solution": "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"}
    slow = first | {"id": "slow", "solution": f"import time\n\ntime.sleep(8)\n{first['solution']}"}  # until the kill
    with pairs.open("a") as file:
        file.write(json.dumps(wrong) + "\n" + json.dumps(slow) + "\n")
    config = write_config(tmp_path, pairs, stages, outputs="[jsonl]")
    verdicts = tmp_path / "out/verdicts.jsonl"
    process = subprocess.Popen(
        command("data", "build", config), cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not verdicts.exists() or verdicts.read_text().count("\n") < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out/jsonl/train.jsonl").exists()
    # The evaluator's own folder is swept by the next one.
    assert all("tritonforge-evaluator-" in str(path) for path in tmp_path.glob("tritonforge*"))
    card = json.loads(run("data", "build", config, "--json"))
    quality = next(stage for stage in card["stages"] if stage["name"] == "quality")
    assert quality["report"]["verdicts_of_earlier_builds"] >= 3
    assert quality["kept"] == 9 and sum(quality["dropped"].values()) == 1
    keys = [json.loads(line)["key"] for line in verdicts.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 10


def sft_recipe(folder, name, data):
    recipe = folder / f"{name}.yaml"
    recipe.write_text(
        f"extends: {ROOT}/recipes/quickstart.yaml\nname: {name}\ndashboard_port: 0\nstages: [sft]\n"
        f"data: {{pairs: '', conversations: {data}}}\n"
        "sft: {steps: 2, tokens_per_step: 1024, train: {checkpoint_interval: 0}}\n"
    )
    return recipe


def test_sft_takes_it_packed_and_as_conversations_alike(built, tmp_path):
    folder, card = built
    for kind in ("jsonl", "parquet"):  # a build's folder without packed
        (tmp_path / f"only_{kind}").mkdir()
        for name in (kind, "dropped.jsonl"):
            (tmp_path / f"only_{kind}" / name).symlink_to(folder / name)
        listed = {name: "" for name in card["outputs"] if name.startswith((kind, "dropped"))}
        (tmp_path / f"only_{kind}/card.json").write_text(json.dumps(card | {"outputs": listed}))
    (tmp_path / "only_parquet/packed").mkdir()
    (tmp_path / "only_parquet/packed/train.tokens").write_text("of another build")
    weights = []
    for name, data in (
        ("packed", folder),
        ("chat", folder / "jsonl/train.jsonl"),
        ("parquet", folder / "parquet/train.parquet"),
        ("chats", tmp_path / "only_jsonl"),
        ("parquets", tmp_path / "only_parquet"),
    ):
        run("run", sft_recipe(tmp_path, name, data), "--output", tmp_path / name)
        weights.append((tmp_path / name / "models/sft/model.safetensors").read_bytes())
    assert all(each == weights[0] for each in weights)


def test_a_folder_that_sft_cannot_take_is_refused_before_the_run(built, tmp_path):
    folder, card = built
    (tmp_path / "megatron").symlink_to(folder / "megatron")
    (tmp_path / "dropped.jsonl").symlink_to(folder / "dropped.jsonl")
    (tmp_path / "card.json").write_text(json.dumps(card | {"outputs": {"megatron/train.bin": "", "dropped.jsonl": ""}}))
    refusal = run("run", sft_recipe(tmp_path, "none", tmp_path), "--dry-run", code=2)
    assert (
        f"data.conversations: {tmp_path} holds no packed/train, jsonl/train.jsonl or parquet/train.parquet; "
        "its build wrote dropped.jsonl, megatron/train.bin" in refusal
    )
    (tmp_path / "empty.jsonl").write_text("")
    recipe = sft_recipe(tmp_path, "empty", tmp_path / "empty.jsonl")
    refusal = run("run", recipe, "--output", tmp_path / "empty", code=2)
    assert f"data.conversations: no example in {tmp_path / 'empty.jsonl'}" in refusal
