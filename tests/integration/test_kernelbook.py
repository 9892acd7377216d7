"""KernelBook's own form (bench/kernelbook_printed.py makes its rows), from a row to a verdict of the real evaluator."""

import json
import os
import pathlib
import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
KINDS = 25  # of modules that kernelbook_printed.py has
TRACES = ("_inductor", "triton_helpers", "get_raw_stream", "empty_strided_cuda", "_DeviceGuard", "primals_", "def call")


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def build(folder, rows, *stages):
    """(the card, the rows that are kept, why the others were dropped) of a data set."""
    folder.mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet")
    config = folder / "c.yaml"
    config.write_text(
        f"name: t\noutput: {folder}/out\ntokenizer: {ROOT}/models/tiny-base\n"
        f"sources: [kernelbook: {{path: {folder}}}]\nstages: [{', '.join(stages)}]\noutputs: [jsonl]\n"
    )
    card = json.loads(run(BINARY, "data", "build", config, "--json"))
    kept, dropped = (
        [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        for file in (folder / "out/jsonl/train.jsonl", folder / "out/dropped.jsonl")
    )
    return card, kept, dropped


def stage_of(card, name):
    return next(stage for stage in card["stages"] if stage["name"] == name)


def answer_of(row):
    return row["messages"][-1]["content"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    file = tmp_path_factory.mktemp("printed") / "rows.parquet"
    run(sys.executable, ROOT / "bench/kernelbook_like.py", file, "--rows", KINDS, "--printed")
    return pyarrow.parquet.read_table(file).to_pylist()


def test_every_row_is_rewritten_and_judged_correct(printed, tmp_path):
    for row in printed:
        assert "from torch._inductor.runtime.triton_heuristics import grid" in row["triton_code"]
    card, kept, dropped = build(tmp_path / "rewrite", printed, "clean", "convert", "quality")
    assert not dropped and len(kept) == KINDS
    assert stage_of(card, "convert")["repaired"] == {"inductor_rewritten": KINDS}
    for row, was in zip(kept, printed):
        answer = answer_of(row)
        assert "class ModelNew(nn.Module)" in answer and "@triton.jit" in answer
        assert not [trace for trace in TRACES if trace in answer], row["place"]
        assert "_paritybench_helpers" not in row["messages"][-2]["content"]
        assert row["stars"] == was["stars"] and row["repairs"] == ["inductor_rewritten"]


def test_kept_as_it_stands_no_row_runs_on_the_torch_of_today(printed, tmp_path):
    card, kept, dropped = build(tmp_path / "keep", printed[:2], "convert: {inductor: keep}", "quality")
    assert not kept and stage_of(card, "convert")["repaired"] == {}
    for row in dropped:
        assert row["stage"] == "quality" and row["reason"] == "import_error"
        assert "cannot import name 'grid'" in row["detail"]


def without(text):
    return lambda solution: "".join(line + "\n" for line in solution.splitlines() if text not in line)


def replaced(old, new):
    def change(solution):
        assert old in solution
        return solution.replace(old, new)

    return change


# What is done to the first row's solution, and what the card says of it.
# fmt: off
BROKEN = {
    "cut off": (lambda s: s[: s.rindex("call([") + 6], "it is no Python"),
    "no call": (replaced("def call(args)", "def run(args)"), "it has no function call"),
    "no forward": (replaced("def forward(self", "def other(self"), "it has no class ModelNew with a forward"),
    "autotuned": (replaced("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit"),
                  "a kernel has another decorator than triton.jit"),
    "foreign kernel": (replaced("[grid(", "_of_another_file[grid("), "it launches a kernel that it does not have"),
    "foreign function": (replaced("tl.load(in_ptr0", "a_load(in_ptr0"), "it needs a name that it does not have"),
    "foreign grid": (replaced("[grid(", "[split_scan_grid("), "a grid that is not understood"),
    "raw": (lambda s: s + "\nx = async_compile.triton('x', '''@pointwise''', device_str='cuda')\n",
            "its kernels are texts for torch.compile's own run time"),
    "more work": (replaced("        output = call(", "        input_0 = input_0 + 1\n        output = call("),
                  "forward does more than to call"),
    "library": (replaced("torch.cuda.set_device(0)", "extern_kernels.fft(buf0, out=buf0)"),
                "Inductor calls fft of its own library"),
    "symbolic": (replaced("assert_size_stride(arg0_1, (4,", "assert_size_stride(arg0_1, (s0,"), "a size is no number"),
    "nested": (lambda s: s + "x = " + "(" * 300 + "1" + ")" * 300 + "\n", "it is no Python"),
    "deep": (lambda s: s + "x = " + "-" * 100000 + "1\n", "it is nested too deeply"),
    "arguments": (replaced("256, XBLOCK", "256, 7, XBLOCK"), "a kernel is launched with another number of arguments"),
}
# fmt: on


def test_what_cannot_be_rewritten_is_kept_with_its_reason(printed, tmp_path):
    rows = [printed[0] | {"triton_code": change(printed[0]["triton_code"])} for change, _ in BROKEN.values()]
    card, kept, dropped = build(tmp_path / "broken", rows, "clean", "convert")
    said = {row["place"].rsplit(" ", 1)[1]: row for row in kept}
    assert not dropped
    for number, (name, (_, reason)) in enumerate(BROKEN.items(), 1):
        row = said[str(number)]
        assert row["repairs"] == ["inductor_kept: " + reason], name
        assert rows[number - 1]["triton_code"].splitlines()[0] in answer_of(row), name
    counts = stage_of(card, "convert")["repaired"]
    assert sum(counts.values()) == len(rows) and counts["inductor_kept: it is no Python"] == 2


def test_nothing_of_a_row_is_run_and_a_long_one_is_answered(printed, tmp_path):
    first = printed[0]["triton_code"]
    hostile = "import os\nwhile True:\n    os.abort()\n" + first
    long = first + "".join(f"\ndef f{i}(x):\n    return x + {i}\n" for i in range(20000))
    assert 600_000 < len(long) < 1 << 20
    _, kept, _ = build(tmp_path / "more", [printed[0] | {"triton_code": s} for s in (hostile, long, first)], "convert")
    assert [row["repairs"] for row in kept] == [["inductor_rewritten"]] * 3
    assert len({answer_of(row) for row in kept}) == 1


BACKWARD = """
import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_heuristics import grid
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
import torch.nn as nn
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda


@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, out_ptr1, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tl.full([XBLOCK], True, tl.int1)
    tmp0 = tl.load(in_ptr0 + xindex, None)
    tmp1 = tl.where(tmp0 > 0, tmp0, 0.0)
    tmp2 = tmp1 <= 0.0
    tl.device_assert(xindex < 256, 'index out of bounds')
    tl.store(out_ptr0 + xindex, tmp1, None)
    tl.store(out_ptr1 + xindex, tmp2, None)


@triton.jit
def triton_poi_fused_mul_1(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tl.store(out_ptr0 + xindex, tl.load(in_ptr0 + xindex, None) * 2, None)


def call(args):
    primals_1, = args
    args.clear()
    assert_size_stride(primals_1, (4, 4, 4, 4), (64, 16, 4, 1))
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((4, 4, 4, 4), (64, 16, 4, 1), torch.float32)
        buf1 = empty_strided_cuda((4, 4, 4, 4), (64, 16, 4, 1), torch.bool)
        get_raw_stream(0)
        triton_poi_fused_relu_0[grid(256)](primals_1, buf0, buf1, 256, XBLOCK=256, num_warps=4, num_stages=1)
        buf2 = empty_strided_cuda((4, 4, 4, 4), (64, 16, 4, 1), torch.float32)
        triton_poi_fused_mul_1[grid(256)](buf0, buf2, 256, XBLOCK=256, num_warps=4, num_stages=1)
        return buf0, primals_1, buf1, buf2


class ReluNew(nn.Module):

    def forward(self, input_0):
        primals_1 = input_0
        output = call([primals_1])
        return output[0]
"""
RELU = """import torch


class Relu(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand([4, 4, 4, 4]) - 0.5]


def get_init_inputs():
    return [[], {}]
"""


def test_what_only_a_backward_would_read_is_left_out(tmp_path):
    row = {"python_code": RELU, "triton_code": BACKWARD, "entry_point": "Relu"}
    _, kept, dropped = build(tmp_path / "backward", [row], "convert", "quality")
    assert not dropped
    answer = answer_of(kept[0])
    assert answer.count("tl.store(") == 1 and answer.count("@triton.jit") == 1 and "device_assert" not in answer
    assert "triton_poi_fused_relu_0[(triton.cdiv(256, 256),)](\n            input_0, buf0,\n" in answer


def verdict_on(folder, problem, candidate, *options):
    (folder / "problem.py").write_text(problem)
    (folder / "candidate.py").write_text(candidate)
    files = ("--problem", folder / "problem.py", "--candidate", folder / "candidate.py")
    done = subprocess.run([BINARY, "evaluate", *map(str, files), "--json", *options], capture_output=True, text=True)
    return json.loads(done.stdout)


PROBLEM = RELU.replace("Relu", "Model").replace("[[], {}]", "[]")
CANDIDATE = BACKWARD.replace("ReluNew", "ModelNew")


def test_a_models_answer_that_imports_grid_is_told_what_replaces_it(tmp_path):
    verdict = verdict_on(tmp_path, PROBLEM, CANDIDATE)
    assert verdict["error_kind"] == "import_error" and not verdict["correct"]
    assert "has no grid: a launch says its sizes itself" in verdict["diagnostics"]


@pytest.mark.parametrize("mode", ["plan", "interpret"])
def test_the_rest_of_what_inductor_calls_runs_without_a_gpu(tmp_path, mode):
    candidate = without("import grid")(CANDIDATE).replace("[grid(256)]", "[(1,)]")
    verdict = verdict_on(tmp_path, PROBLEM, candidate, "--mode", mode)
    assert verdict["correct"] and verdict["mode"] == mode, verdict["diagnostics"]
    # Memory that it hands out is as torch.empty's is: what no kernel wrote is no result.
    unwritten = without("triton_poi_fused_relu_0[(1,)]")(candidate)
    assert not verdict_on(tmp_path, PROBLEM, unwritten, "--mode", mode)["correct"]
