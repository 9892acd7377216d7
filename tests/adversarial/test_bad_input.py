"""Requests, candidates and problems that are not what they should be: a clear verdict each, of the stage that the
candidate reached, whichever mode judges it."""

import json
import os
import shutil
import urllib.error
import urllib.request

import pytest

from evaluator_server import BINARY, HEADER, HONEST, PROBLEM, Evaluator


@pytest.fixture(scope="module")
def server():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "plan")
    yield server
    assert server.judge(HONEST)["correct"]
    assert server.stop() == 0


@pytest.fixture(scope="module")
def live_server():
    server = Evaluator("--mode", "live")
    yield server
    assert server.stop() == 0


@pytest.fixture
def server_of(server, request):
    """Live mode has one of its own, which is given the GPU."""
    return lambda mode: request.getfixturevalue("live_server") if mode == "live" else server


MODES = pytest.mark.parametrize("mode", ["plan", "interpret"])
NO_GPU = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA GPU here")
MODES_AND_LIVE = pytest.mark.parametrize("mode", ["plan", "interpret", pytest.param("live", marks=NO_GPU)])


def problem_of(forward, inputs="torch.randn(4, 100)"):
    body = "".join(f"        {line}\n" for line in forward.split("\n"))
    return f"""
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
{body}
def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def candidate_of(forward):
    body = "".join(f"        {line}\n" for line in forward.split("\n"))
    return HEADER + "class ModelNew(nn.Module):\n    def forward(self, x):\n" + body


# ---- Bodies ----


def refusal(server, body, path="/v2/evaluations"):
    request = urllib.request.Request(f"{server.url}{path}", body, {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    error = json.load(refused.value)["error"]
    assert error["type"] == "usage", error
    return refused.value.code, error["message"]


def body_of(**changes):
    return json.dumps({"problem": {"id": "p", "source": PROBLEM}, "candidate": HONEST} | changes).encode()


@pytest.mark.parametrize(
    "body, text",
    [
        (b"", "'problem'"),
        (b"{", "JSON"),
        (b'{"problem": {"source": "x"}, "candidate": "\xff\xfe"}', "not valid JSON at byte 44"),
        (b"[1, 2]", "object"),
        (body_of(candidate=HONEST + "\ud800"), "not valid JSON"),
        (body_of(candidate=7), "'candidate'"),
        (body_of(problem="x"), "'problem'"),
        (body_of(problem={"source": None}), "'source'"),
        (body_of(num_correct_trials="three"), "num_correct_trials"),
        (body_of(num_correct_trials=0), "num_correct_trials"),
        (body_of(timeout_s=-1), "timeout_s"),
        (body_of(targets=["sm_1"]), "sm_1"),
        (body_of(mode="fast"), "mode"),
        (body_of(candidat="x"), "candidat"),
    ],
)
def test_a_body_that_is_no_request_is_refused_by_name(server, body, text):
    status, message = refusal(server, body)
    assert status == 400 and text in message, message


# ---- Sources ----


@MODES_AND_LIVE
@pytest.mark.parametrize(
    "source, stage, kind, text",
    [
        ("", "parsed", "import_error", "ModelNew"),
        (HONEST.replace("ModelNew", "Model"), "parsed", "import_error", "ModelNew"),
        ("class ModelNew(\n", "extracted", "syntax_error", "line 1"),
        (HONEST + "\0", "extracted", "syntax_error", "null bytes"),
        (HONEST + "x = '" + "a" * (10 << 20) + "'\n", "correct", "", ""),
        ("x = [" * 500 + "]" * 500 + "\n" + HONEST, "extracted", "syntax_error", ""),
        ("import ModelNew\n" + HONEST, "parsed", "import_error", "ModelNew"),
        ("from candidate import ModelNew\n" + HONEST, "parsed", "import_error", "candidate"),
        (HONEST.replace("(self, x)", "(self)"), "imported", "runtime_error", "positional argument"),
        (HONEST.replace("(self, x)", "(self, x, y)"), "imported", "runtime_error", "'y'"),
        (HONEST.replace("class ModelNew(nn.Module):", "class ModelNew(nn.Module):\n    def __init__(self, width):\n"
         "        super().__init__()\n"), "imported", "runtime_error", "width"),
        ("ModelNew = 3\n", "parsed", "import_error", "ModelNew"),
    ],
    ids=["empty", "no_ModelNew", "syntax", "nul", "ten_megabytes", "deep", "imports_itself",
         "imports_its_module", "too_few_arguments", "too_many_arguments", "constructor", "no_class"],
)  # fmt: skip
def test_a_source(server_of, mode, source, stage, kind, text):
    verdict = server_of(mode).judge(source, mode=mode)
    assert (verdict["error_kind"], verdict["correct"]) == (kind, not kind), verdict
    assert verdict["stage"] == ("timed" if mode == "live" and not kind else stage), verdict
    assert text in verdict["diagnostics"], verdict


@MODES_AND_LIVE
def test_a_grid_of_a_quotient(server_of, mode):
    """1.5625 programs, which Python counts and no launch on a GPU takes."""
    source = HONEST.replace("triton.cdiv(x.numel(), 256)", "x.numel() / 256")
    verdict = server_of(mode).judge(source, mode=mode)
    assert verdict["error_kind"] == "runtime_error" and not verdict["cheated"], verdict
    assert mode == "live" or "must have integer sizes: triton.cdiv" in verdict["diagnostics"], verdict


@MODES
@pytest.mark.parametrize(
    "line, hint",
    [
        (
            "a = tl.tanh(a)",
            "tl has no tanh: libdevice.tanh (from triton.language.extra import libdevice), or 2 * tl.sig",
        ),
        ("a = tl.math.pow(a, 2)", "tl.math has no pow: libdevice.pow"),
        ("a = a ** 2", "x * x for a square"),
        ("a = tl.round(a)", "libdevice.rint(x)"),
        ("a = tl.float(a)", "x.to(tl.float32)"),
        ("a = tl.floor_(a)", "tl has no floor_: tl.floor"),
        ("a = tl.zeros_like(a, dtype=tl.float32)", "tl.zeros(x.shape, dtype=tl.float32)"),
        ("a += tl.reduce(a, 0, lambda p, q: p + q)", "tl.sum(x, axis)"),
        ("a += tl.reduce(a, tl.maximum, 0)", "tl.reduce(x, axis, combine)"),
        ("a += tl.arange(0, n)", "BLOCK: tl.constexpr is a power of two"),
        ("a += tl.sum(tl.arange(0, 100), 0)", "BLOCK: tl.constexpr is a power of two"),
        ("a = a[0]", "a block of values takes [:, None]"),
        ("a = torch.erf(a)", "take no values of a kernel"),
        ("a += tl.sum(tl.dot(tl.zeros((16, 8), tl.float32), tl.zeros((8, 16), tl.float32)))", "at least 16 terms"),
    ],
)
def test_what_triton_has_in_its_place_is_told(server, mode, line, hint):
    source = HONEST.replace("    tl.store", f"    {line}\n    tl.store")
    verdict = server.judge(source, mode=mode)
    assert verdict["error_kind"] == "compile_error" and "\nhint: " in verdict["diagnostics"], verdict
    assert hint in verdict["diagnostics"], verdict["diagnostics"]


# ---- Outputs ----


@MODES_AND_LIVE
@pytest.mark.parametrize(
    "forward, text",
    [
        ("launch(x)\nreturn None", ""),
        ("launch(x)\nreturn 'relu'", ""),
        ("launch(x)\nreturn 3.0", ""),
        ("return [launch(x), launch(x)]", ""),
        ("return {'y': launch(x)}", ""),
        ("return launch(x)[:3]", "shape"),
        ("return launch(x).reshape(100, 4)", "shape"),
        ("return launch(x).double()", "float64"),
        ("return launch(x).to(torch.int32)", "int32"),
        ("return launch(x) + float('nan')", "nan"),
        ("return launch(x) / 0", ""),
        ("return launch(x)[:0]", "shape"),
        ("return launch(x).sum()", "shape"),
    ],
)
def test_an_output_that_is_not_the_references(server_of, mode, forward, text):
    verdict = server_of(mode).judge(candidate_of(forward), mode=mode)
    assert not verdict["correct"] and verdict["error_kind"] in ("mismatch", "runtime_error"), verdict
    assert text in verdict["diagnostics"], verdict


@MODES
@pytest.mark.parametrize("outputs", ["[launch(x)] + [x.new_empty(0)] * 200000", "[launch(x), list(range(2000000))]"])
def test_outputs_beyond_what_is_read_are_told_and_no_forgery(server, mode, outputs):
    verdict = server.judge(candidate_of(f"return {outputs}"), mode=mode)
    assert (verdict["error_kind"], verdict["cheated"]) == ("runtime_error", False), verdict
    assert "MiB beside its tensors' data, at most 4 MiB are read" in verdict["diagnostics"], verdict


def test_an_output_of_more_bytes_than_are_read_is_told_and_no_forgery(server):
    verdict = server.judge(candidate_of("launch(x)\nreturn x.new_zeros(1 << 25)"), mode="interpret")
    assert (verdict["error_kind"], verdict["cheated"]) == ("runtime_error", False), verdict
    assert "a value of 128 MiB, at most 64 MiB are read" in verdict["diagnostics"], verdict


DEVICES = ["x.to('cuda:7')", "x.to(torch.device('cuda', 7))", "x.to(7)", "x.cuda(7)", "x.to('xpu')",
           "torch.empty_like(x, device='cuda:7')", "torch.zeros(4, 100, device='cuda:1')",
           "nn.Linear(4, 4).to('cuda:5')", "nn.Linear(4, 4).cuda(1)",
           "torch.cuda.set_device(3)", "torch.cuda.device(1)"]  # fmt: skip


@MODES
@pytest.mark.parametrize("where", DEVICES)
def test_a_device_that_is_not_there(server, mode, where):
    verdict = server.judge(candidate_of(f"{where}\nreturn launch(x)"), mode=mode)
    assert (verdict["error_kind"], verdict["stage"]) == ("runtime_error", "imported"), verdict
    assert "there is no device '" in verdict["diagnostics"] and "the GPU is 'cuda:0'" in verdict["diagnostics"], verdict


@MODES
@pytest.mark.parametrize(
    "where", [".to('cuda')", ".to(device=torch.device('cuda'))", ".to('cuda:0', torch.float32)", ".half().float()",
              ".to(torch.empty(1, device='cuda').device)", ".to(torch.float32)", ".cuda()", ".to('cpu')"]
)  # fmt: skip
def test_a_module_on_the_device_that_is_there(server, mode, where):
    constructor = f"    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(4, 4){where}\n"
    moved = "return launch(x.to(x.device, non_blocking=True).to('cuda', torch.float32, copy=True).to(0))"
    candidate = candidate_of(moved).replace("(nn.Module):\n", f"(nn.Module):\n{constructor}")
    verdict = server.judge(candidate, mode=mode)
    assert verdict["correct"], verdict


@MODES
@pytest.mark.parametrize(
    "call", ["launch(torch.ones(4, 100))", "relu_kernel.warmup(*2 * [torch.float32], 400, B=256, grid=(1,))"]
)
def test_a_kernel_of_the_constructor_is_no_answer(server, mode, call):
    constructor = f"    def __init__(self):\n        super().__init__()\n        {call}\n"
    candidate = HONEST.replace("(nn.Module):\n", f"(nn.Module):\n{constructor}")
    verdict = server.judge(candidate, mode=mode)
    assert verdict["correct"] and verdict["mode"] == mode, verdict


@MODES_AND_LIVE
@pytest.mark.parametrize("moved", ["to('meta')", "to(torch.device('meta'), torch.float32)", "to(device='meta')"])
def test_an_output_on_another_device(server_of, mode, moved):
    verdict = server_of(mode).judge(candidate_of(f"return launch(x).{moved}"), mode=mode)
    assert not verdict["correct"] and not verdict["cheated"], verdict
    assert "meta" in verdict["notes"].get("mode_reason", "") + verdict["diagnostics"], verdict


# ---- Problems ----

RIGHT = {
    "nan_of_the_reference": ("y = torch.relu(x) * 2\nreturn torch.where(y > 2, float('nan'), y)",
                             "y = launch(x)\nreturn torch.where(y > 2, float('nan'), y)"),
    "inf_of_the_reference": ("y = torch.relu(x) * 2\nreturn torch.where(y > 2, float('inf'), y)",
                             "y = launch(x)\nreturn torch.where(y > 2, float('inf'), y)"),
    "zero_dimensions": ("return (torch.relu(x) * 2).sum()", "return launch(x).sum()"),
    "tuple": ("y = torch.relu(x) * 2\nreturn y, y + 1", "y = launch(x)\nreturn y, y + 1"),
    "dict": ("y = torch.relu(x) * 2\nreturn {'y': y, 'z': [y + 1]}", "y = launch(x)\nreturn {'y': y, 'z': [y + 1]}"),
    "dict_in_another_order": ("y = torch.relu(x) * 2\nreturn {'z': [y + 1], 'y': y}",
                              "y = launch(x)\nreturn {'y': y, 'z': [y + 1]}"),
    "an_empty_one_beside": ("y = torch.relu(x) * 2\nreturn y, y[:0]", "y = launch(x)\nreturn y, y[:0]"),
}  # fmt: skip


@MODES_AND_LIVE
@pytest.mark.parametrize("name", RIGHT)
def test_what_a_problem_may_return_is_compared(server_of, mode, name):
    server, (problem, forward) = server_of(mode), RIGHT[name]
    verdict = server.judge(candidate_of(forward), problem_of(problem), mode=mode)
    assert verdict["correct"], verdict
    wrong = server.judge(candidate_of(forward.replace("launch(x)", "(launch(x) + 1)")), problem_of(problem), mode=mode)
    assert wrong["error_kind"] == "mismatch", wrong


@pytest.mark.parametrize(
    "problem, text",
    [
        ("", "Model"),
        ("def f(:\n", "line 1"),
        (problem_of("raise ValueError('of its own')"), "of its own"),
        (problem_of("return torch.relu(x) * 2", "torch.empty(0, 4)"), ""),
        (problem_of("return x * float('nan')"), ""),
        (PROBLEM + "\0", "null bytes"),
    ],
)
def test_a_problem_that_is_none_is_no_candidates_fault(server, problem, text):
    verdict = server.judge(HONEST, problem)
    assert verdict["error_kind"] == "problem_error" and text in verdict["diagnostics"], verdict


@MODES_AND_LIVE
def test_a_problem_of_ten_megabytes(server_of, mode):
    server, large = server_of(mode), PROBLEM + "TEXT = '" + "a" * (10 << 20) + "'\n"
    verdict = server.judge(HONEST, large, mode=mode)
    assert verdict["correct"], verdict
    wrong = server.judge(HONEST.replace("* 2", "* 3"), large, mode=mode)
    assert wrong["error_kind"] == "mismatch", wrong
