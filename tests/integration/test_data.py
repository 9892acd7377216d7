"""Problems and generated pairs, run by Triton's interpreter without the evaluator: what each says is what it does."""

import ast
import importlib.util
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
import torch

# Triton reads it when its own functions and ours are decorated. Other tests' processes must not inherit it.
os.environ["TRITON_INTERPRET"] = "1"
import triton.language  # noqa: F401

del os.environ["TRITON_INTERPRET"]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "tritonforge"))
_numbers = itertools.count()
PROBLEMS = sorted(ROOT.glob("problems/level*/*.py"))


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def shrunken(source, most):
    # Not the channels of a group norm: their groups divide them.
    return re.sub(r"^(?!num_channels)(\w+) = (\d+)$", lambda m: f"{m[1]} = {min(int(m[2]), most)}", source, flags=re.M)


def load(source, path):
    # A name of its own: Python takes an older module's bytecode for a file of the same second and size.
    path = path.with_name(f"{path.stem}_{next(_numbers)}.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(problem, model_class, seed):
    torch.manual_seed(seed)
    init = problem.get_init_inputs()
    torch.manual_seed(seed)
    model = model_class(*init)
    torch.manual_seed(seed)
    inputs = problem.get_inputs()
    with torch.no_grad():
        return model(*inputs)


def data(*arguments):
    done = subprocess.run([BINARY, "data", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_enough_problems():
    assert len([p for p in PROBLEMS if p.parent.name == "level1"]) >= 40
    assert len([p for p in PROBLEMS if p.parent.name == "level2"]) >= 20


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_problem(path, tmp_path):
    source = path.read_text()
    assert re.match(r"# families: \w+(, \w+)*\n", source)
    assert re.fullmatch(r"\d+_\w+", path.stem)
    sizes = [n for n in ast.parse(source).body if isinstance(n, ast.Assign)]
    assert sizes, "sizes are module globals"
    module = load(shrunken(source, 16), tmp_path / "problem.py")
    first, again, other = (run(module, module.Model, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert torch.isfinite(first.float()).all()
    assert not torch.equal(first, other)


# Odd sizes, so that every mask is needed.
@pytest.mark.parametrize("style,count,sample,most", [("compact", 300, 30, 4096), ("full", 300, 30, 45)])
def test_generated_pairs_agree(style, count, sample, most, tmp_path):
    file = tmp_path / "pairs.jsonl"
    data("generate", "--output", file, "--count", count, "--style", style, "--seed", 11, "--unverified")
    lines = file.read_text().splitlines()
    assert len(lines) == count
    wrong, families = [], set()
    for line in lines[:: count // sample]:
        pair = json.loads(line)
        families.update(pair["families"])
        problem = load(shrunken(pair["problem"], most), tmp_path / "problem.py")
        solution = load(pair["solution"], tmp_path / "solution.py")
        expected, got = run(problem, problem.Model, 3), run(problem, solution.ModelNew, 3)
        if got.shape != expected.shape or not torch.allclose(got, expected, rtol=1e-4, atol=1e-4):
            wrong.append(pair["combo"])
    assert not wrong
    assert len(families) >= 15


def test_every_family_alone_agrees(tmp_path):
    """The first draws of a set are its families, each alone."""
    for style in ("compact", "full"):
        file = tmp_path / f"{style}.jsonl"
        data("generate", "--output", file, "--count", 60, "--style", style, "--seed", 12, "--unverified")
        for line in file.read_text().splitlines():
            pair = json.loads(line)
            if len(pair["families"]) > 1:
                continue
            problem = load(shrunken(pair["problem"], 70), tmp_path / "problem.py")
            solution = load(pair["solution"], tmp_path / "solution.py")
            expected, got = run(problem, problem.Model, 4), run(problem, solution.ModelNew, 4)
            assert got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-4, atol=1e-4), pair["combo"]


def test_layers_and_what_follows_them_agree(tmp_path):
    layers = [
        "conv1d",
        "conv2d",
        "conv2d_strided",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "linear_layer",
        "linear_no_bias",
        "group_norm_layer",
        "max_pool2d",
        "avg_pool2d",
    ]
    file, old_super = tmp_path / "pairs.jsonl", 0
    for layer in layers:
        data(
            "generate",
            "--output",
            file,
            "--count",
            3,
            "--style",
            "full",
            "--seed",
            13,
            "--unverified",
            "--families",
            layer,
        )
        for line in file.read_text().splitlines():
            pair = json.loads(line)
            assert pair["families"][0] == layer and len(pair["families"]) >= 2, (
                "a layer alone would launch no kernel of its own"
            )
            problem = load(shrunken(pair["problem"], 14), tmp_path / "problem.py")
            solution = load(pair["solution"], tmp_path / "solution.py")
            expected, got = run(problem, problem.Model, 4), run(problem, solution.ModelNew, 4)
            assert got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-4, atol=1e-4), pair["combo"]
            old_super += "super(ModelNew, self)" in pair["solution"]
            assert "super(Model, self)" not in pair["solution"]
    assert 0 < old_super < 3 * len(layers)


def test_columns_are_rolled_by_more_than_there_are(tmp_path):
    file, shifts = tmp_path / "pairs.jsonl", set()
    data("generate", "--output", file, "--count", 12, "--style", "wide", "--seed", 14, "--unverified",
         "--families", "roll_columns")  # fmt: skip
    for line in file.read_text().splitlines():
        pair = json.loads(line)
        shifts.update(map(int, re.findall(r"torch\.roll\(x, (\d+), -1\)", pair["problem"])))
        problem = load(shrunken(pair["problem"], 5), tmp_path / "problem.py")
        solution = load(pair["solution"], tmp_path / "solution.py")
        expected, got = run(problem, problem.Model, 4), run(problem, solution.ModelNew, 4)
        assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4), pair["combo"]
    assert max(shifts) > 2 * 5, shifts


def test_corpus_kernels_agree(tmp_path):
    file = tmp_path / "text.jsonl"
    data("text", "--output", file, "--count", 80, "--seed", 2)
    checked = 0
    for line in file.read_text().splitlines():
        text = json.loads(line)["text"]
        if "<|im_start|>assistant" not in text:
            continue
        problem_source = text.split("user\n", 1)[1].split("<|im_end|>")[0]
        solution_source = text.split("```python\n")[1].split("```")[0]
        problem, solution = (
            load(problem_source, tmp_path / "problem.py"),
            load(solution_source, tmp_path / "solution.py"),
        )
        expected, got = run(problem, problem.Model, 5), run(problem, solution.ModelNew, 5)
        assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4), text
        checked += 1
    assert checked > 20


def test_stats_and_usage(tmp_path):
    file = tmp_path / "pairs.jsonl"
    data(
        "generate",
        "--output",
        file,
        "--count",
        200,
        "--seed",
        1,
        "--unverified",
        "--no-messages",
        "--emit-problems",
        tmp_path / "problems",
        "--emit-holdout",
        10,
        "--emit-rl",
        20,
    )
    stats = json.loads(data("stats", file, "--json"))
    assert stats["pairs"] == 200 and stats["duplicates"] == 0 and stats["leaked"] == 0
    assert stats["by_split"]["train"] + stats["by_split"]["rl"] + stats["by_split"]["holdout"] == 200
    assert stats["solution_chars"]["max"] <= 900
    said = data("problems", file, "--output", tmp_path / "again", "--holdout", 10, "--rl", 20)
    assert said == f"10 held-out problems and 20 for RL -> {tmp_path}/again\n"
    for name, most in (("holdout", 10), ("rl", 20)):
        problems = (tmp_path / "problems" / name / "problems.jsonl").read_text()
        assert len(problems.splitlines()) == most and "class Model" in json.loads(problems.splitlines()[0])["code"]
        assert problems == (tmp_path / "again" / name / "problems.jsonl").read_text()
    for arguments, word in (
        (["--families", "rellu"], "relu"),
        (["--style", "compct"], "compact"),
        (["--coutn", "3"], "--count"),
    ):
        done = subprocess.run(
            [BINARY, "data", "generate", "--output", file, *arguments], capture_output=True, text=True
        )
        assert done.returncode == 2 and f"did you mean '{word}'" in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    (tmp_path / "empty.jsonl").touch()
    command = [BINARY, "data", "problems", tmp_path / "empty.jsonl", "--output", tmp_path / "nothing"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"tritonforge: {tmp_path}/empty.jsonl holds no pairs\n"
    done = subprocess.run([BINARY, "data", "text", "--output", "/proc/none/text.jsonl"], capture_output=True, text=True)
    assert done.returncode == 1 and "/proc/none" in done.stderr
    done = subprocess.run([BINARY, "data", "stats", tmp_path / "none.jsonl"], capture_output=True, text=True)
    assert done.returncode == 2 and "none.jsonl" in done.stderr


def test_verified_by_an_evaluator_of_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    file = tmp_path / "pairs.jsonl"
    result = json.loads(data("generate", "--output", file, "--count", 8, "--refinements", 1, "--json"))
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    assert result["written"] == len(pairs) == 8 and result["rejected"] == []
    assert all(pair["verified"] for pair in pairs)
    refined = [pair for pair in pairs if "refinement" in pair]
    assert len(refined) >= 6
    for pair in refined:
        roles = [message["role"] for message in pair["messages"]]
        assert roles == ["user", "assistant", "user", "assistant"]
        assert pair["refinement"]["wrong"] in pair["messages"][1]["content"]
        assert pair["messages"][2]["content"] == pair["refinement"]["feedback"] != ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_what_is_verified_and_says_where(number, tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    command = [BINARY, "data", "generate", "--output", "pairs.jsonl", "--count", "500", "--trials", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    part = tmp_path / "pairs.jsonl.part"
    while not part.exists() or part.read_text().count("\n") < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1].splitlines()[-1]
    assert process.returncode == 128 + number and not (tmp_path / "pairs.jsonl").exists()
    pairs = [json.loads(line) for line in part.read_text().splitlines()]
    assert all(pair["verified"] for pair in pairs)
    where = f"the first {len(pairs)} pairs are in {part}; the same command begins anew and overwrites them"
    assert said == f"tritonforge: stopped by {signal.strsignal(number)}; {where}"


def test_chains_and_their_repairs_are_judged(tmp_path, monkeypatch):
    """One family of each sort: alone, which is how a set begins, and some behind each other."""
    monkeypatch.delenv("TRITON_INTERPRET")
    families = (
        "conv2d_gemm attention_causal linear_autotuned linear_split_k cumsum_blocks linear_recurrence swiglu "
        "scatter_add_rows gather_columns max_columns group_norm_fused mean_over_time"
    )
    file = tmp_path / "pairs.jsonl"
    arguments = [
        "--count",
        18,
        "--style",
        "wide",
        "--refinements",
        1,
        "--trials",
        1,
        "--families",
        families.replace(" ", ","),
    ]
    result = json.loads(data("generate", "--output", file, *arguments, "--json"))
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    assert result["rejected"] == [] and all(pair["verified"] for pair in pairs)
    assert {pair["families"][0] for pair in pairs} >= set(families.split())
    assert max(pair["solution"].count("@triton.jit") for pair in pairs) >= 3
    repaired = [pair for pair in pairs if "refinement" in pair or "refinements" in pair]
    assert len(repaired) >= 14
    for pair in repaired:
        for refinement in pair.get("refinements", [pair.get("refinement")]):
            assert refinement["wrong"] != pair["solution"] and refinement["feedback"]
            assert any(refinement["feedback"] in message["content"] for message in pair["messages"])


def test_shipped_pairs():
    file = ROOT / "problems/quickstart/pairs.jsonl"
    stats = json.loads(data("stats", file, "--json"))
    assert stats["pairs"] >= 2000 and stats["verified"] == stats["pairs"]
    assert stats["duplicates"] == 0 and stats["leaked"] == 0
    assert file.stat().st_size < 4 << 20
    trained = {
        json.dumps(sorted(set(p["families"])))
        for p in map(json.loads, file.read_text().splitlines())
        if p["split"] == "train"
    }
    known = {family for combo in trained for family in json.loads(combo)}
    for line in (ROOT / "problems/quickstart/holdout/problems.jsonl").read_text().splitlines():
        problem = json.loads(line)
        assert json.dumps(sorted(set(problem["families"]))) not in trained
        assert set(problem["families"]) <= known
