"""Problems are admitted, not trusted: what cannot tell right from wrong is barred or drawn otherwise, and what an
honest kernel may do with its weights is taken."""

import json
import re
import subprocess

import pytest

from evaluator_server import BINARY, HEADER

SHAPES = "\ndef get_inputs():\n    return [torch.rand(batch, width)]\n\ndef get_init_inputs():\n    return []\n"


def problem(forward, sizes="batch, width = 16, 64", init="", inputs=SHAPES):
    head = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    for line in sizes.split("; "):
        names, values = line.split(" = ")
        head += "".join(f"{n} = {v}\n" for n, v in zip(names.split(", "), values.split(", ")))
    made = f"    def __init__(self):\n        super().__init__()\n        {init}\n" if init else ""
    return f"{head}\nclass Model(nn.Module):\n{made}    def forward(self, x):\n        return {forward}\n{inputs}"


SOUND = problem("torch.tanh(x) + x")
CASES = {
    "sound": (SOUND, True, {"draw": "as_given", "tolerance": 1}),
    "constant": (problem("x * 0 + 3"), False, "mean"),
    "identity": (problem("F.dropout(x, training=False)"), False, "input"),
    "zero": (problem("(x - 1).relu()"), True, {"draw": "signed"}),
    "never_more_than_zero": (problem("-(x.abs()).sqrt().relu().neg().relu()"), False, "zeros"),
    "sum": (problem("(x * x).mean()"), True, {}),
    "idle": (problem("torch.relu(self.norm(torch.abs(x)))", init="self.norm = nn.LayerNorm(width)"), True,
             {"draw": "signed"}),
    "bfloat16": (problem("torch.logsumexp(x, 1)", "batch, width = 16, 4096", inputs=SHAPES.replace(
        "torch.rand(batch, width)", "torch.randn(batch, width).bfloat16()")), True, {}),
    "groups": (problem("self.norm(self.layer(x))", "batch, width, groups = 1024, 8192, 512",
                       "self.layer, self.norm = nn.Linear(width, width), nn.GroupNorm(groups, width)"), True, {}),
    "blocks": (problem("x.unflatten(1, (-1, block)).cumsum(2)", "batch, length, block, width = 4096, 128, 64, 256",
                       inputs=SHAPES.replace("(batch, width)", "(batch, length, width)")), True, {}),
    "forgotten": (problem("self.layer(x.unflatten(1, (64, -1)))[1][0]", "batch, width = 8, 512",
                          "self.layer = nn.GRU(8, 16, batch_first=True)"), True, {"draw": "wide", "idle": []}),
    "one_place": (problem("torch.tanh(x.unflatten(1, (-1, 1)).mean(2, keepdim=True))[..., 0]"), True,
                  {"draw": "as_given", "idle": []}),
    "weights_alone": (problem("self.layer(F.max_pool2d(x, 4))", "batch, width = 4, 64",
                              "self.layer = nn.Conv2d(256, 256, 3, padding=1)", inputs=SHAPES.replace(
        "rand(batch, width)", "randn(batch, 256, width, width)")), True, {}),
    "chunks": (problem("x.unflatten(1, (-1, block)).cumsum(2)",
                       "batch, length, block, heads, head, state = 2048, 128, 64, 8, 64, 16", inputs=SHAPES.replace(
        "rand(batch, width)", "rand(batch, length, heads * head * state // 64)")), True, {}),
    "wide_kernel": (problem("self.layer(x)", "batch, channels, filters, width, height = 8, 32, 64, 512, 512",
                            "self.layer = nn.Conv2d(channels, filters, (5, 9))", inputs=SHAPES.replace(
        "rand(batch, width)", "rand(batch, channels, height, width)")), True, {}),
    "recurrent": (problem("self.layer(x.unsqueeze(0))[0]", "batch, width = 8, 16",
                          "self.layer = nn.GRU(width, width, 2)"), True, {}),
    "shape_in_a_tuple": (problem("x.sum(1)", "batch = 32768; shape = (32768,)", inputs=SHAPES.replace(
        "(batch, width)", "(batch, *shape)")), True, {}),
    "rounds": (problem("functools.reduce(lambda h, k: torch.tanh(h + k), x.split(16, 1))",
                       "batch, width = 4096, 64").replace("import", "import functools\nimport", 1), True, {}),
    "one_number": (problem("F.avg_pool2d(x, 4)", "batch = 8", inputs=SHAPES.replace(
        "\ndef", "height = width = 512\n\ndef", 1).replace("(batch, width)", "(batch, 8, height, width)")), True, {}),
    "names_at_once": (problem("torch.tanh(x) + x", "batch = 16384; width = 65536").replace(
        "batch = 16384\nwidth = 65536", "batch, width = 16384, 65536"), True, {"draw": "as_given", "tolerance": 1}),
    "exact_in_half": (problem("(x > 0.5).float()"), True, {"draw": "as_given", "tolerance": 1}),
    "ends": (problem("F.hardswish(x * 0.5 + 0.5)", inputs=SHAPES.replace("rand", "randn")), True, {"draw": "signed"}),
    "indices": (problem("torch.relu(x)[k]", inputs=SHAPES.replace(
        "width)]", "width), torch.randint(0, batch, (batch,))]")).replace("(self, x)", "(self, x, k)"), True,
                {"draw": "signed"}),
    "one_side": (problem("torch.where(x > -7, torch.exp(x * 0.1), x)", "batch, width = 64, 512",
                         inputs=SHAPES.replace("rand", "randn")), True, {"draw": "signed"}),
    "one_of_two": (problem("torch.clamp(torch.tanh(torch.clamp(x + x * x, max=3.0)), max=1.0)",
                           "batch, width = 64, 256"), True, {"draw": "signed"}),
    "product": (problem("torch.stack([torch.exp(x), 1e-5 * torch.tanh(x @ x)]).sum(0)", "batch, width = 64, 64"), True,
                {"within": ["without_term"]}),
    "its_own_fault": (problem("x @ x"), False, "problem's own code fails"),
    "random": (problem("x + torch.rand(1, generator=torch.Generator().manual_seed(__import__('os').getpid())).item()"
                       " + torch.empty(1).normal_(generator=G)", inputs=SHAPES + "G = torch.Generator()\nG.seed()\n"),
               False, "does not pass as its own candidate"),
}  # fmt: skip


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("problems")
    for number, (name, case) in enumerate(CASES.items()):
        (folder / f"{number}_{name}.py").write_text(case[0])
    command = [BINARY, "bench", "--self-check", "--problems", folder, "--json"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    assert report["problems"] == len(CASES) == report["admitted"] + report["barred"]
    return {row["id"].split("_", 1)[1]: row for row in report["results"]}


def test_a_problem_that_is_no_python_is_barred_with_what_is_wrong(tmp_path):
    (tmp_path / "1_colon.py").write_text(problem("x").replace("def forward(self, x):", "def forward(self, x)"))
    command = [BINARY, "bench", "--self-check", "--problems", tmp_path]
    said = subprocess.run(command, capture_output=True, text=True)
    assert "own code fails" in said.stdout and said.stdout.splitlines()[0].endswith("SyntaxError: expected ':'"), said


@pytest.mark.parametrize("name", CASES)
def test_self_check(checked, name):
    _, admitted, wanted = CASES[name]
    row = checked[name]
    assert row["admitted"] == admitted, row
    if admitted:
        assert wanted.items() <= row.items(), row
    else:
        assert wanted in row["reason"], row


def test_sizes_keep_their_proportions(checked):
    reduced = {name: [int(n) for n in text.split(" -> ")] for name, text in checked["groups"]["reduced"].items()}
    assert reduced["width"][1] // reduced["groups"][1] == 8192 // 512, reduced
    reduced = {name: int(text.split(" -> ")[1]) for name, text in checked["blocks"]["reduced"].items()}
    assert reduced["length"] == 2 * reduced["block"], reduced
    reduced = {name: int(text.split(" -> ")[1]) for name, text in checked["chunks"]["reduced"].items()}
    assert reduced["length"] >= 2 * reduced["block"], reduced
    assert set(checked["rounds"]["reduced"]) == {"batch"}, checked["rounds"]
    assert set(checked["one_number"]["reduced"]) == {"height"}, checked["one_number"]
    assert int(checked["weights_alone"]["reduced"]["width"].split(" -> ")[1]) >= 8, checked["weights_alone"]
    assert set(checked["shape_in_a_tuple"]["reduced"]) == {"batch", "shape[0]"}
    assert set(checked["names_at_once"]["reduced"]) == {"batch", "width"}


def layer_norm(before, after):
    return (
        HEADER
        + f"""
@triton.jit
def norm(x, w, b, y, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    j = tl.arange(0, n)
    a = tl.load(x + i){before}
    a = a - tl.sum(a) / n
    a = a * tl.rsqrt(tl.sum(a * a) / n + 1e-5)
    tl.store(y + i, tl.maximum(a{after}, 0.0))

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
    def forward(self, x):
        y = torch.empty_like(x)
        norm[(x.shape[0], )](x, self.norm.weight, self.norm.bias, y, n=64)
        return y
"""
    )


AFFINE = " * tl.load(w + j) + tl.load(b + j)"


def magnitude(kernel):
    return kernel.replace("tl.load(x + i)\n", "tl.abs(tl.load(x + i))\n")


def test_what_a_problem_leaves_out_cannot_be_left_out(plan):
    source = CASES["idle"][0]
    verdict = plan.judge(magnitude(layer_norm("", AFFINE)), problem=source)
    assert verdict["correct"] and verdict["notes"]["draw"] == "signed", verdict
    for cheat in (layer_norm("", AFFINE), magnitude(layer_norm("", "")), layer_norm("", "")):
        verdict = plan.judge(cheat, problem=source)
        assert not verdict["correct"] and verdict["error_kind"] == "mismatch", verdict


def test_a_constant_is_not_the_mean_of_half_precision(plan):
    cheat = (
        HEADER
        + """
@triton.jit
def constant(x, y):
    tl.store(y + tl.program_id(0), (tl.load(x).to(tl.float32) * 0 + 8.8125).to(tl.bfloat16))

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        constant[(x.shape[0], )](x, y)
        return y
"""
    )
    verdict = plan.judge(cheat, problem=CASES["bfloat16"][0])
    assert not verdict["correct"] and verdict["error_kind"] == "mismatch", verdict


LAYER = problem("self.layer(x)", init="self.layer = nn.Linear(width, 32)")
PRODUCT = """
@triton.jit
def product(x, w, b, y, K: tl.constexpr, N: tl.constexpr):
    r, n, k = tl.program_id(0), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + r * K + k)
    tl.store(y + r * N + n, tl.sum(tl.load(w + n[:, None] * K + k[None, :]) * a[None, :], 1) + tl.load(b + n))

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {weights}
    def forward(self, x):
        y = torch.empty(x.shape[0], 32, device=x.device)
        product[(x.shape[0], )](x, {w}, {b}, y, K=64, N=32)
        return y
"""


@pytest.mark.parametrize("mode", ["plan", "interpret"])
def test_weights_under_other_names_are_found(plan, mode):
    weights = "self.w, self.b = nn.Parameter(torch.empty(32, 64)), nn.Parameter(torch.zeros(32))"
    source = HEADER + PRODUCT.format(weights=weights, w="self.w", b="self.b")
    verdict = plan.judge(source, problem=LAYER, mode=mode)
    assert verdict["mode"] == mode and all(t["passed"] for t in verdict["trials"]) and verdict["correct"], verdict


@pytest.mark.parametrize("mode", ["plan", "interpret"])
def test_what_is_derived_from_weights_when_the_module_is_made_is_right(plan, mode):
    weights = "layer = nn.Linear(64, 32); self.register_buffer('turned', layer.weight.t().clone()); self.b = layer.bias"
    source = HEADER + PRODUCT.format(weights=weights, w="self.turned.t().contiguous()", b="self.b")
    verdict = plan.judge(source, problem=LAYER, mode=mode)
    assert verdict["correct"] and verdict["notes"]["own_weights"] == "turned", verdict
    folded = magnitude(layer_norm("", AFFINE)).replace("self.norm.weight, self.norm.bias", "self.w, self.b")
    folded = folded.replace(
        "nn.LayerNorm(64)", "nn.LayerNorm(64); n = self.norm; self.w, self.b = n.weight.cuda() * 1, n.bias.cuda() + 0"
    )
    verdict = plan.judge(folded, problem=CASES["idle"][0], mode=mode)
    assert verdict["correct"], verdict


@pytest.mark.parametrize("mode", ["plan", "interpret"])
def test_weights_that_have_no_counterpart_are_named(plan, mode):
    weights = "self.turned, self.b = nn.Parameter(torch.randn(64, 32)), nn.Parameter(torch.zeros(32))"
    source = HEADER + PRODUCT.format(weights=weights, w="self.turned.t().contiguous()", b="self.b")
    verdict = plan.judge(source, problem=LAYER, mode=mode)
    assert verdict["error_kind"] == "mismatch" and verdict["notes"]["own_weights"] == "turned", verdict
    assert "these have none: turned" in verdict["diagnostics"], verdict


def test_a_barred_problem_judges_nobody(plan):
    verdict = plan.judge(HEADER + PRODUCT.format(weights="pass", w="x", b="x"), problem=CASES["constant"][0])
    assert verdict["error_kind"] == "problem_error" and "barred" in verdict["diagnostics"], verdict


@pytest.mark.parametrize("forward", ["torch.relu(x)", "torch.relu(x) * 2 + x"])  # needs another draw; has it looked at
def test_a_draw_that_takes_too_long_is_no_doubt_of_right_and_wrong(plan, forward):
    source = problem(f"{forward} if (x >= 0).all() else __import__('time').sleep(60)")
    verdict = plan.judge(HEADER + PRODUCT.format(weights="pass", w="x", b="x"), problem=source, timeout_s=8)
    assert verdict["error_kind"] == "problem_error", verdict
    assert re.search(r"did not finish within \d s \(held against its controls, drawn signed\)", verdict["diagnostics"])


RELU = problem("torch.relu(x)", "batch, width = 16384, 65536", inputs=SHAPES.replace("rand(", "randn("))
WHOLE = (
    HEADER
    + """
@triton.jit
def relu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        B = {block}
        relu[(triton.cdiv(n, B), )](x, y, n, B=B)
        return y
"""
)


def test_what_is_right_at_small_sizes_must_compile_at_the_problems_own(plan):
    verdict = plan.judge(WHOLE.replace("{block}", "triton.next_power_of_2(n)"), problem=RELU)
    assert not verdict["correct"] and verdict["error_kind"] == "compile_error", verdict
    assert "at the problem's own size (batch = 16384, width = 65536): kernel relu" in verdict["diagnostics"], verdict
    verdict = plan.judge(WHOLE.replace("{block}", "1024"), problem=RELU)
    assert verdict["correct"] and "full_size" not in verdict["notes"], verdict


def test_a_launch_at_full_size_that_cannot_be_told_is_a_note(plan):
    verdict = plan.judge(WHOLE.replace("{block}", "1024 if n < 2**26 else int(x.sum())"), problem=RELU)
    assert verdict["correct"] and "needed on the host" in verdict["notes"]["full_size"], verdict
