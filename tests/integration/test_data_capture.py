"""`tritonforge data capture`: what TorchInductor generates for a module is judged like any candidate's kernels."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "tritonforge"))


def module(forward, shapes, init="", arguments="x"):
    """A problem in KernelBench's form; `forward` is an expression, `shapes` are of the inputs."""
    inputs = ", ".join(shape if "torch" in shape else f"torch.randn({shape})" for shape in shapes)
    return f"""import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init or "pass"}

    def forward(self, {arguments}):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


# Each shows one thing that the code of a module can hold.
# fmt: off
CAPTURED = {
    "pointwise_chain": module("return torch.tanh(F.gelu(x) * y) + 0.5 * y", ["33, 70", "33, 70"], arguments="x, y"),
    "norm_of_linear": module("return self.norm(self.linear(x))", ["24, 32"],
                             "self.linear, self.norm = nn.Linear(32, 48), nn.LayerNorm(48)"),
    "softmax": module("return torch.softmax(x * 3, dim=-1)", ["16, 100"]),
    "softmax_of_long_rows": module("return torch.softmax(x, dim=-1)", ["4, 6000"]),
    "mean_to_scalar": module("return ((x - y) ** 2).mean()", ["64, 300", "64, 300"], arguments="x, y"),
    "conv_bias_relu": module("return F.relu(self.conv(x) + self.bias)", ["2, 3, 20, 20"],
                             "self.conv, self.bias = nn.Conv2d(3, 8, 3), nn.Parameter(torch.randn(8, 1, 1))"),
    "batch_norm_eval": module("return F.relu(self.layers(x))", ["4, 6, 9, 9"],
                              "self.layers = nn.Sequential(nn.BatchNorm2d(6).eval())"),
    "several_outputs": module("return x.amax(1), (x * 2, x.argmax(1))", ["20, 90"]),
    "embedding": module("return self.table(x).sum(1) * 0.5", ["torch.randint(0, 50, (8, 12))"],
                        "self.table = nn.Embedding(50, 16)"),
    "cumulated": module("return torch.cumsum(x * 2, dim=1)", ["8, 200"]),
    "number": module("return torch.minimum(x + self.shift, torch.tensor(0.5, device=x.device))", ["10, 20"],
                     "self.shift = 0.25"),
    "batch_norm": module("return F.relu(self.norm(x))", ["4, 6, 9, 9"], "self.norm = nn.BatchNorm2d(6)"),
    "transposed": module("return F.silu(x.transpose(1, 2)).contiguous()", ["3, 20, 40"]),
    "half": module("return F.relu(x) * 1.5", ["torch.randn(30, 40).half()"]),
    "buffer": module("return x * self.scale + self.shift", ["10, 20"],
                     "self.register_buffer('scale', torch.ones(20)); self.shift = nn.Parameter(torch.zeros(20))"),
}
REFUSED = {
    "random": (module("return F.dropout(x, 0.5) * x", ["8, 8"]), "draws random numbers"),
    "branch": (module("return x * 2 if x.sum() > 0 else x * 3", ["8, 8"]), "no graph of tensor operations"),
    "library_only": (module("return x @ x", ["8, 8"]), "makes no kernel"),
    "broken": (module("return x +* 2", ["8, 8"]), "SyntaxError"),
    "no_module": (module("return x", ["8, 8"]).replace("(nn.Module)", ""), "not a torch.nn.Module"),
}
# fmt: on


def problem_lines(sources):
    rows = enumerate(sources.items(), 1)
    return "".join(json.dumps({"level": 1, "problem_id": i, "name": n, "code": s}) + "\n" for i, (n, s) in rows)


def capture(folder, sources, *options):
    (folder / "problems.jsonl").write_text(problem_lines(sources))
    command = [BINARY, "data", "capture", "--problems", folder / "problems.jsonl", "--output", folder / "pairs.jsonl"]
    done = subprocess.run([*map(str, command), "--json", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pairs = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    return json.loads(done.stdout), pairs


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    sources = {**CAPTURED, **{name: source for name, (source, _) in REFUSED.items()}}
    return capture(tmp_path_factory.mktemp("capture"), sources)


def of(pairs, name):
    return next((pair for pair in pairs if pair["id"].endswith("_" + name)), None)


@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_module_is_judged_correct(captured, name):
    report, pairs = captured
    pair = of(pairs, name)
    assert pair, [line for line in report["refused"] if name in line]
    assert pair["verified"] and pair["style"] == "captured" and pair["families"]
    assert pair["problem"] == CAPTURED[name]  # small enough as it is


def test_a_solution_is_what_a_person_would_write(captured):
    for pair in captured[1]:
        solution = pair["solution"]
        assert "@triton.jit" in solution and "class ModelNew(nn.Module)" in solution
        for word in ("_inductor", "triton_helpers", "get_raw_stream", "empty_strided_cuda", "'cuda'", "get_inputs"):
            assert word not in solution, pair["id"]
        assert pair["messages"][-1]["role"] == "assistant" and solution.strip() in pair["messages"][-1]["content"]


def test_a_solution_has_the_modules_own_constructor(captured):
    solution = of(captured[1], "conv_bias_relu")["solution"]
    assert "self.conv, self.bias = (nn.Conv2d(3, 8, 3), nn.Parameter(torch.randn(8, 1, 1)))" in solution
    assert "F.relu" not in solution and "torch.nn.functional.conv2d(x, self.conv.weight)" in solution


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_captured_is_refused_with_a_reason(captured, name):
    report, pairs = captured
    assert of(pairs, name) is None
    (line,) = [line for line in report["refused"] if f"_{name}: " in line]
    assert REFUSED[name][1] in line and "\n" not in line


def test_the_counts_are_of_all(captured):
    report, pairs = captured
    assert report["problems"] == len(CAPTURED) + len(REFUSED)
    assert report["written"] == len(pairs) == report["problems"] - sum(report["refused_by"].values())


def test_a_signal_leaves_what_is_captured_and_says_where(tmp_path):
    (tmp_path / "problems.jsonl").write_text(problem_lines({f"{i}": CAPTURED["softmax"] for i in range(50)}))
    command = [BINARY, "data", "capture", "--problems", "problems.jsonl", "--output", "pairs.jsonl", "--unverified"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    part = tmp_path / "pairs.jsonl.part"
    while not part.exists() or part.stat().st_size == 0:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1].splitlines()[-1]
    assert process.returncode == 130
    pairs = [json.loads(line) for line in part.read_text().splitlines()]
    assert f"stopped by Interrupt; the first {len(pairs)} pairs are in {part}; " in said


PRODUCTS = {
    "product": module("return x @ y", ["40, 70", "70, 50"], arguments="x, y"),
    "batched": module("return torch.bmm(x, y.transpose(1, 2)) * 2", ["3, 20, 64", "3, 36, 64"], arguments="x, y"),
    "linear_relu": module("return F.relu(self.linear(x))", ["24, 48"], "self.linear = nn.Linear(48, 32)"),
}


def test_products_of_matrices_are_kernels_where_that_is_asked_for(tmp_path):
    report, pairs = capture(tmp_path, PRODUCTS, "--gemm", "triton")
    assert len(pairs) == len(PRODUCTS), report["refused"]
    for pair in pairs:
        assert pair["verified"] and "tl.dot(" in pair["solution"] and "torch.mm" not in pair["solution"]


FORGED = """
import tritonforge_worker.protocol as protocol
send = protocol.Channel.send
protocol.Channel.send = lambda channel, header: send(channel, dict(header, {}))
"""
HOSTILE = {
    "writes": "open('OUTSIDE', 'w').write('was here')\n" + module("return x * 2", ["8, 8"]),
    "forks": "import os\nwhile True:\n    os.fork()\n" + module("return x * 2", ["8, 8"]),
    "loops": "while True:\n    pass\n" + module("return x * 2", ["8, 8"]),
    # A solution that only calls torch, and an answer to another problem.
    "forges": module("return x * 2", ["8, 8"])
    + FORGED.format("solution=header['problem'].replace('Model', 'ModelNew')"),
    "exchanges": module("return x * 2", ["8, 8"]) + FORGED.format("problem='class Model: pass'"),
}


def test_a_hostile_module_harms_nothing(tmp_path):
    outside = tmp_path / "outside"
    sources = {name: source.replace("OUTSIDE", str(outside)) for name, source in HOSTILE.items()}
    report, pairs = capture(tmp_path, {**sources, "honest": CAPTURED["softmax"]}, "--timeout", "15")
    assert not outside.exists()
    assert [re.sub(r".*\d_", "", pair["id"]) for pair in pairs] == ["honest"]
    assert report["captured"] == 2  # the forged solution is one until it is judged
    for name, why in {"forks": "Error", "loops": "did not finish within 15 s", "exchanges": "another problem"}.items():
        assert any(f"_{name}: " in line and why in line for line in report["refused"]), report["refused"]


def test_pairs_are_captured_again_and_read_by_data_build(tmp_path):
    given, again, built = tmp_path / "given.jsonl", tmp_path / "again.jsonl", tmp_path / "built"
    make = [BINARY, "data", "generate", "--style", "wide", "--count", "6", "--refinements", "0", "--unverified"]
    subprocess.run([*make, "--seed", "4", "--output", given], check=True)
    # A split of its own, as --holdout gives one.
    rows = [{**json.loads(line), "split": "holdout"} for line in given.read_text().splitlines()]
    given.write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run([BINARY, "data", "capture", "--problems", given, "--output", again, "--unverified"], check=True)
    pairs = {pair["id"]: pair for pair in map(json.loads, again.read_text().splitlines())}
    assert pairs
    for row in rows:
        if pair := pairs.get("captured_" + row["id"]):
            assert (pair["split"], pair["families"]) == (row["split"], row["families"])
            assert pair["solution"] != row["solution"] and not pair["verified"]
    config = tmp_path / "build.yaml"
    entries = {"sources": [{"pairs": {"path": str(again)}}], "stages": ["convert"], "outputs": ["jsonl"]}
    config.write_text(json.dumps({"name": "captured", "output": str(built), **entries}))
    done = subprocess.run([BINARY, "data", "build", config], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_bad_input_is_one_line(tmp_path):
    command = [BINARY, "data", "capture", "--output", tmp_path / "pairs.jsonl", "--problems"]
    done = subprocess.run([*command, tmp_path / "nowhere"], capture_output=True, text=True)
    assert done.returncode == 2 and "nowhere" in done.stderr and done.stderr.count("\n") == 1
