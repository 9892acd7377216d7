"""Plan mode: the trusted side replays what is recorded; what the candidate's process says counts for nothing."""

from pathlib import Path

import pytest

from evaluator_server import HEADER, HONEST, Evaluator

CORPUS = Path(__file__).parent / "corpus"


def forward(body, more=""):
    return (
        HEADER
        + more
        + "\nclass ModelNew(nn.Module):\n    def forward(self, x):\n"
        + "\n".join("        " + line for line in body.strip().split("\n"))
        + "\n"
    )


def names(verdict):
    return {flag["name"] for flag in verdict["flags"]}


def test_honest_kernel_is_judged_as_a_plan(plan):
    verdict = plan.judge(HONEST, targets=["sm_90", "gfx942"])
    assert verdict["correct"] and verdict["mode"] == "plan" and not verdict["flags"], verdict
    assert verdict["kernels"] == ["relu_kernel"] and verdict["compile_targets"] == {"sm_90": "ok", "gfx942": "ok"}
    assert verdict["own_share"] == 1 and verdict["claimed"] == [], verdict
    assert "mode_reason" not in verdict["notes"] and len(verdict["trials"]) == 3


def test_mode_can_be_asked_for(plan):
    verdict = plan.judge(HONEST + "# interpreted\n", mode="interpret")
    assert verdict["correct"] and verdict["mode"] == "interpret" and "own_share" not in verdict
    assert {"correct", "compiled", "kernels"} <= set(verdict["claimed"]), verdict


PLACES = """
import os
import tempfile
folders = ["/tmp", "/var/tmp", "/dev/shm", "/run", os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir()]
folders += [os.environ[name] for name in ("TRITON_CACHE_DIR", "HOME", "TMPDIR", "XDG_CACHE_HOME") if name in os.environ]
paths = [os.path.join(folder, "left_by_a_candidate") for folder in folders]
there = [path for path in paths if os.path.exists(path)]
assert not there, there
"""
LEAVING = """
def leave(path):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("a hint")
    except OSError:
        return False
    return os.path.exists(path)

assert sum(map(leave, paths)) > 0, paths
"""


def test_what_a_candidate_leaves_the_next_one_does_not_find(plan):
    for source in (PLACES + LEAVING, PLACES, PLACES + "# once more\n"):
        verdict = plan.judge(source + HONEST)
        assert verdict["correct"] and verdict["mode"] == "plan", verdict


COPY = """
@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n){more}, mask=i < n)

def copy(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 256), )](x, y, x.numel(), B=256)
    return y
"""
LAYER = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(48, 40)
    def forward(self, x):
        return torch.relu(torch.mm(x, self.layer.weight.t()) + self.layer.bias) * 2
def get_inputs():
    return [torch.randn(64, 48)]
"""


def layer(body, more=""):
    """A ModelNew with LAYER's weights."""
    source = forward(body, more)
    start = "\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(48, 40)"
    return source.replace("class ModelNew(nn.Module):", "class ModelNew(nn.Module):" + start)


@pytest.mark.parametrize(
    "body, more",
    [
        ("return copy(torch.relu(x) * 2)", ""),
        ("return copy(torch.relu(x) * 2)", " * 1.0 + 0.0"),
        ("return copy(torch.relu(x) * 2)", " * 1.0001"),
        ("y = torch.relu(x) * 2\nfor _ in range(16):\n    y = copy(y)\nreturn y", ""),
        ("y = torch.exp(torch.log(x.abs() + 1)) - 1\nreturn launch(torch.where(x > 0, y, x).contiguous())", ""),
    ],
)
def test_kernels_behind_what_torch_computed_are_no_work(plan, body, more):
    verdict = plan.judge(forward(body, COPY.replace("{more}", more)))
    assert not verdict["correct"] and names(verdict) == {"torch_does_the_work"}, verdict
    assert verdict["own_share"] < 0.01 and "torch the rest" in verdict["diagnostics"], verdict


def test_cheaper_torch_calls_are_no_work_either(plan):
    fused = "return copy(torch.addmm(self.layer.bias, x, self.layer.weight.t()).relu_().mul_(2))"
    verdict = plan.judge(layer(fused, COPY.replace("{more}", "")), problem=LAYER)
    assert not verdict["correct"] and verdict["own_share"] == 0, verdict


def test_a_part_of_the_work_is_a_part(plan):
    verdict = plan.judge(layer("return launch(self.layer(x))"), problem=LAYER)
    assert verdict["correct"] and 0.1 < verdict["own_share"] < 0.9, verdict


def test_data_that_torch_moves_is_no_work_left_to_it(plan):
    padded = "y = torch.nn.functional.pad(x, (0, 28)).contiguous()\nreturn launch(y)[:, :100].contiguous()"
    verdict = plan.judge(forward(padded))
    assert verdict["correct"] and verdict["own_share"] == 1, verdict


def test_a_problem_of_moving_data_is_won_by_moving_it(plan):
    problem = LAYER.replace(
        "torch.relu(torch.mm(x, self.layer.weight.t()) + self.layer.bias) * 2", "x.t().contiguous()"
    )
    kernel = """
@triton.jit
def turn(x, y, M, N, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A)[:, None], tl.arange(0, B)[None, :]
    mask = (i < M) & (j < N)
    tl.store(y + j * M + i, tl.load(x + i * N + j, mask=mask), mask=mask)
"""
    body = "y = torch.empty(48, 64, device=x.device)\nturn[(1, )](x, y, 64, 48, A=64, B=64)\nreturn y"
    verdict = plan.judge(layer(body, kernel), problem=problem)
    assert verdict["correct"] and verdict["own_share"] == 1, verdict
    verdict = plan.judge(layer("return copy(x.t().contiguous())", COPY.replace("{more}", "")), problem=problem)
    assert not verdict["correct"] and names(verdict) == {"torch_does_the_work"}, verdict


@pytest.fixture(scope="module")
def trusting():
    server = Evaluator("--mode", "plan", "--claims", "accept", "--min-own-share", "0")
    yield server
    assert server.stop() == 0


def test_kernel_that_does_not_matter(plan, trusting):
    source = forward("launch(x)\nreturn torch.relu(x) * 2")
    verdict = plan.judge(source)
    assert not verdict["correct"] and "torch_does_the_work" in names(verdict), verdict
    verdict = trusting.judge(source)
    assert not verdict["correct"] and "no_kernel_effect" in names(verdict), verdict


def test_a_product_in_tf32_is_told_how_to_keep_float32(plan):
    for path in ("cheats/o7_tf32_before_a_mean.py", "honest/ieee_dot_before_a_mean.py"):
        problem, candidate = (CORPUS / path).read_text().split("# ---- candidate ----\n")
        verdict = plan.judge(candidate, problem)
        wrong = path.startswith("cheats")
        assert (verdict["error_kind"] == "mismatch") == wrong == ('input_precision="ieee"' in verdict["diagnostics"])


def test_a_product_that_is_too_small_at_the_problems_own_sizes_is_refused(plan):
    path = CORPUS / "honest" / "attention_heads_of_a_problem_in_small.py"
    problem, candidate = path.read_text().split("# ---- candidate ----\n")
    verdict = plan.judge(candidate, problem.replace("= 256, 8,", "= 128, 16,"))  # heads of 8, halved or not
    assert verdict["error_kind"] == "compile_error" and not verdict["correct"], verdict
    assert "at the problem's own size" in verdict["diagnostics"] and "K >= 16" in verdict["diagnostics"], verdict


def test_no_kernel(plan):
    verdict = plan.judge(forward("return torch.relu(x) * 2"))
    assert verdict["mode"] == "plan" and not verdict["correct"] and "no_kernel_launched" in names(verdict), verdict


def test_race_is_found_though_programs_could_run_in_order(plan):
    verdict = plan.judge(
        forward(
            "s = torch.zeros(1, device=x.device)\nsumming[(4, )](x, s, x.numel(), B=128)\nreturn s",
            """
@triton.jit
def summing(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(s, tl.load(s) + tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
""",
        ),
        problem="""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum().reshape(1)
def get_inputs():
    return [torch.randn(4, 100)]
""",
    )
    assert not verdict["correct"] and verdict["error_kind"] == "runtime_error" and "race" in verdict["notes"], verdict
    assert "kernel summing, candidate.py:" in verdict["diagnostics"] and "'s'" in verdict["diagnostics"]


def test_missing_mask_is_named(plan):
    verdict = plan.judge(HONEST.replace(", mask=i < n)", ")"))
    assert verdict["mode"] == "plan" and verdict["error_kind"] == "runtime_error", verdict
    assert (
        "out-of-bounds" in verdict["diagnostics"]
        and "'x'" in verdict["diagnostics"]
        and "candidate.py:" in verdict["diagnostics"]
    )


def test_mismatch_and_mutation(plan):
    verdict = plan.judge(HONEST.replace("* 2, mask", "* 3, mask"))
    assert (
        verdict["mode"] == "plan" and verdict["error_kind"] == "mismatch" and "output 0 at [" in verdict["diagnostics"]
    )
    verdict = plan.judge(forward("y = launch(x)\nx.zero_()\nreturn y"))
    assert not verdict["correct"] and "input_mutated" in names(verdict)
    verdict = plan.judge(forward("relu_kernel[(triton.cdiv(x.numel(), 256), )](x, x, x.numel(), B=256)\nreturn x"))
    assert not verdict["correct"] and {"input_mutated", "output_is_input"} <= names(verdict)


RELU = "relu_kernel[(2, )](x, y, x.numel(), B=256)"


@pytest.mark.parametrize(
    "made",
    [
        "torch.empty(x.shape)",
        "torch.zeros(4, 100, device='cpu')",
        "torch.empty(2, 4, 100)[1]",
    ],
)
def test_memory_of_the_host_is_refused_as_by_a_gpu(plan, made):
    source = f"y = {made}\n{RELU}\nreturn y"
    verdict = plan.judge(forward(source))
    assert (verdict["mode"], verdict["error_kind"]) == ("plan", "runtime_error"), verdict
    assert "'y' is a tensor in the host's memory" in verdict["diagnostics"], verdict
    assert "in forward: relu_kernel[" in verdict["diagnostics"], verdict
    for moved in (f"{made}.to(x.device)", f"{made}.cuda()"):
        assert plan.judge(forward(source.replace(made, moved)))["correct"], moved
    with_default = source.replace("y = ", "with torch.device('cuda'):\n    y = ").replace(", device='cpu'", "")
    assert plan.judge(forward(with_default))["correct"]


@pytest.mark.parametrize(
    "body, named",
    [
        ("return launch(x).cpu()", "returns a tensor in the host's memory"),
        ("return launch(x).to('cpu')", "returns a tensor in the host's memory"),
        ("return torch.empty_like(launch(x), device='cpu').copy_(x)", "returns a tensor in the host's memory"),
        (f"y = torch.zeros(4, 100).to(torch.float32)\n{RELU}\nreturn y", "'y' is a tensor in the host's memory"),
        (f"y = torch.zeros(4, 100)\ny.cuda()\n{RELU}\nreturn y", "'y' is a tensor in the host's memory"),
        (f"y = (torch.ones(4, 100) * 2)[:]\n{RELU}\nreturn y", "'y' is a tensor in the host's memory"),
        (f"y = torch.empty_like(x)\nx = x.cpu()\n{RELU}\nreturn y", "'x' is a tensor in the host's memory"),
        (f"y = torch.tensor([[0.0] * 100] * 4)\n{RELU}\nreturn y", "'y' is a tensor in the host's memory"),
        (f"y = torch.zeros(4, 100, pin_memory=True)\n{RELU}\nreturn y", "returns a tensor in the host's memory"),
        (f"y = torch.zeros(4, 100).pin_memory()\n{RELU}\nreturn y[:]", "returns a tensor in the host's memory"),
        ("return launch(torch.zeros(4, 100, pin_memory=True).copy_(x) + 0)", "'x' is a tensor in the host's memory"),
    ],
)
def test_what_is_made_of_the_hosts_memory_is_there_too(plan, body, named):
    verdict = plan.judge(forward(body))
    assert (verdict["mode"], verdict["error_kind"]) == ("plan", "runtime_error"), verdict
    assert named in verdict["diagnostics"], verdict


@pytest.mark.parametrize(
    "body",
    [
        "assert x.is_cuda and x.cpu().device.type == 'cpu'\nreturn launch(x.cpu().cuda())",
        "y = torch.zeros(4, 100)\nassert not y.is_cuda and y.get_device() == -1\nreturn launch(x) + y.to(x)",
        "zero = torch.tensor(1.0) - 1\nreturn launch(x) + zero",
        "return torch.zeros_like(launch(x).cpu(), device='cuda') + launch(x)",
    ],
)
def test_what_comes_back_from_the_host_is_as_on_a_gpu(plan, body):
    verdict = plan.judge(forward(body))
    assert verdict["correct"] and verdict["mode"] == "plan", verdict


ADDED = """
@triton.jit
def added(x, t, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n) + tl.load(t + i, mask=i < n)
    tl.store(y + i, tl.maximum(a, 0.0) * 2, mask=i < n)
"""


def with_table(made, table="self.table", before="", methods=""):
    """A ModelNew whose constructor makes a table of zeros that its kernel adds."""
    body = f"y = torch.empty_like(x)\nadded[(2, )](x, {table}, y, x.numel(), B=256)\nreturn y"
    source = forward((before + "\n" if before else "") + body, ADDED)
    lines = ["def __init__(self):", *("    " + line for line in ["super().__init__()", *made.split("\n")])]
    lines += methods.split("\n") if methods else []
    start = "class ModelNew(nn.Module):\n"
    return source.replace(start, start + "".join(f"    {line}\n" for line in lines))


@pytest.mark.parametrize(
    "made, table",
    [
        ("self.table = torch.zeros(400)", "self.table"),
        ("self.table = torch.arange(400).float().mul(0)[:]", "self.table"),
        ("self.table = torch.tensor([0.0] * 400)", "self.table"),
        ("self.table = torch.zeros(400, device='cuda').cpu()", "self.table"),
        ("self.table = torch.zeros(400)\nself.table.cuda()", "self.table"),
        ("self.tables = {'of': [torch.zeros(400)]}", "self.tables['of'][0]"),
        ("global TABLE\nTABLE = torch.zeros(400)", "TABLE"),
        ("table = torch.zeros(400)\nself.table = lambda: table", "self.table()"),
        ("self.table = torch.from_numpy(__import__('numpy').zeros(400, 'float32'))", "self.table"),
        ("self.weight = nn.Parameter(torch.zeros(400))\nself.table = self.weight.detach()", "self.table"),
        ("self.register_buffer('b', torch.zeros(400))\nself.table = self.b * 1", "self.table"),
        ("self.tables = [nn.Linear(400, 1, bias=False)]\nself.tables[0].weight.data.zero_()", "self.tables[0].weight"),
        ("self.table = torch.zeros(400, device=nn.Linear(2, 2).weight.device)", "self.table"),
    ],
)
def test_what_a_constructor_keeps_beside_its_state_stays_on_the_host(plan, made, table):
    verdict = plan.judge(with_table(made, table))
    assert (verdict["mode"], verdict["error_kind"]) == ("plan", "runtime_error"), verdict
    assert "'t' is a tensor in the host's memory" in verdict["diagnostics"], verdict
    moved = plan.judge(with_table(made, f"{table}.to(x.device)"))
    assert moved["correct"] and moved["mode"] == "plan", moved


LAZILY = "if self.table.device != x.device:\n    self.table = self.table.to(x.device)"


@pytest.mark.parametrize(
    "parts",
    [
        {"made": "self.table = torch.zeros(400, device='cuda')"},
        {"made": "with torch.device('cuda'):\n    self.table = torch.zeros(20, 20)[:]"},
        {"made": "torch.set_default_device('cuda')\nself.table = torch.zeros(400)"},
        {"made": "self.table = torch.zeros(400).cuda() * 1"},
        {"made": "self.table = torch.tensor([0.0] * 400, device=torch.device('cuda:0'))"},
        {"made": "self.table = torch.zeros(400, dtype=torch.float64).to('cuda', torch.float32)"},
        {"made": "self.table = torch.as_tensor(torch.zeros(400), device='cuda')"},
        {"made": "self.table = torch.zeros_like(torch.ones(400), device='cuda')"},
        {"made": "self.table = torch.zeros(400).pin_memory()"},
        {"made": "self.table = __import__('copy').deepcopy(torch.zeros(400, device='cuda'))"},
        {"made": "self.table = torch.vmap(lambda row: row * 0)(torch.ones(4, 100, device='cuda'))"},
        {"made": "self.table = torch.ones(2, 400, device='cuda').mul_(0).max(0).values"},
        {"made": "with torch.inference_mode():\n    self.table = torch.cat([torch.zeros(200, device='cuda')] * 2)"},
        {"made": "self.table = torch.eye(20).to_sparse().cuda().to_dense() * 0"},
        {"made": "self.table = torch.zeros(400)", "before": LAZILY},
        {"made": "self.table = torch.zeros(400)", "before": LAZILY.replace(".device != x.device", ".is_cpu")},
        {"made": "self.register_buffer('table', torch.zeros(400), persistent=False)"},
        {"made": "self.table = nn.Parameter(torch.zeros(400))"},
        {"made": "self.weight = nn.Parameter(torch.zeros(400))\nself.of = [self.weight]", "table": "self.of[0]"},
        {"made": "self.weight = nn.Parameter(torch.zeros(400)).cuda()\nself.table = self.weight.detach().view(400)"},
        {"made": "self.layer = nn.Linear(400, 1).cuda()\nself.table = self.layer.weight.detach() * 0"},
        {"made": "self.layer = nn.Linear(400, 1).to(device='cuda')\nself.table = self.layer.weight.detach() * 0"},
        {"made": "self.table = torch.zeros(400)\nself.cuda()", "table": "torch.zeros_like(self.table, device='cuda')"},
        {
            "made": "self.table = torch.zeros(400)",
            "methods": "def _apply(self, fn, recurse=True):\n    self.table = fn(self.table)\n"
            "    return super()._apply(fn, recurse)",
        },
        {
            "made": "self.table = torch.zeros(400)",
            "methods": "def to(self, device):\n    self.table = self.table.to(device)\n    return super().to(device)",
        },
        {"made": "self.table = None", "before": "if self.table is None:\n    self.table = x.new_zeros(400)"},
        {
            "made": "pass",
            "table": "table",
            "before": "table = torch.tensor([1.0] * 400)\ntable[:] = 0\ntable = table.cuda()",
        },
        {"made": "pass", "before": "self.cuda().to(x.device)\nself.table = torch.zeros(400, device=x.device)"},
        {"made": "self.n = torch.tensor(400)", "table": "torch.zeros(int(self.n), device=x.device)"},
    ],
)
def test_what_a_constructor_makes_or_moves_on_the_gpu_is_there(plan, parts):
    verdict = plan.judge(with_table(**parts))
    assert verdict["correct"] and verdict["mode"] == "plan", verdict


GRAPH = "g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    y = launch(x)\ng.replay()\nreturn y"


@pytest.mark.parametrize(
    "body, more",
    [
        (f"y = torch.zeros(4, 100)\n{RELU}\nreturn y", "torch.set_default_device('cuda')"),
        (f"y = torch.zeros(4, 100)\n{RELU}\nreturn y", "torch.set_default_tensor_type('torch.cuda.FloatTensor')"),
        (f"y = torch.zeros(4, 100).type_as(x)\n{RELU}\nreturn y", ""),
        (f"y = torch.zeros(4, 100, pin_memory=True)\n{RELU}\nreturn y.cuda()", ""),
        (f"y = torch.zeros(4, 100).pin_memory()\nassert y.is_pinned() and y.is_cpu\n{RELU}\nreturn y.to(x)", ""),
        ("with torch.profiler.record_function('relu'):\n    return launch(x)", ""),
        (GRAPH, ""),
        ("return launch(x) if torch.tensor(x.numel()).item() > 0 else x", ""),
    ],
)
def test_what_a_gpu_takes_is_recorded(plan, body, more):
    verdict = plan.judge(forward(body, more))
    assert verdict["correct"] and verdict["mode"] == "plan", verdict


def test_a_wrong_call_names_the_kernel(plan):
    verdict = plan.judge(HONEST.replace("x.numel(), B=256", "B=256"))
    assert "kernel relu_kernel missing 1 required positional argument: 'n'" in verdict["diagnostics"], verdict


@pytest.mark.parametrize(
    "helper, call, where",
    [
        ("return tl.tanh(a)", "twice(a)", "line 9 of twice, which kernel relu_kernel calls:"),
        ("return a", "tl.max(a, 1)", "line 15 of kernel relu_kernel:"),  # the fault is in Triton's own function
    ],
)
def test_a_fault_behind_a_call_is_placed_in_the_candidates_code(plan, helper, call, where):
    source = HONEST.replace("@triton.jit", f"@triton.jit\ndef twice(a):\n    {helper}\n\n@triton.jit", 1)
    verdict = plan.judge(source.replace("tl.maximum(a, 0.0)", call))
    assert verdict["error_kind"] == "compile_error" and where in verdict["diagnostics"], verdict


def test_memory_that_nobody_wrote(plan):
    verdict = plan.judge(forward("y = torch.empty_like(x)\nrelu_kernel[(1, )](x, y, x.numel(), B=256)\nreturn y"))
    assert verdict["mode"] == "plan" and verdict["error_kind"] == "mismatch", verdict
    assert "memory that no kernel wrote to is nan" in verdict["diagnostics"], verdict


TABLE = """
y = torch.empty_like(x)
table = torch.tensor([x.data_ptr(), y.data_ptr()]).to(x.device)
by_address[(2, )](table, x.numel(), B=256)
return y
"""
BY_ADDRESS = """
@triton.jit
def by_address(table, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    y = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)

@triton.jit
def by_argument(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = x.to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * 2, mask=i < n)
"""


@pytest.mark.parametrize(
    "body, reason",
    [
        ("if x.sum().item() > 1e9:\n    return x\nreturn launch(x)", "value of a tensor is needed on the host"),
        ("if (x > 1e9).any():\n    return x\nreturn launch(x)", "value of a tensor is needed on the host"),
        ("return launch(x) / max((x > 9).sum().item(), 1)", ".clamp(min=1) in place of max()"),
        ("y = launch(x)\ny.numpy()\nreturn y", ".numpy()"),
        ("return launch(x) + 0 * torch.fft.rfft(x).abs().sum()", "in two tensors of floats"),
        ("return launch(x) + 0 * x.to(torch.float8_e4m3fn).float()", "int8, uint8 or int32"),
        ("return launch(x) + 0 * torch.linalg.qr(x)[1].sum()", "linalg_qr is not replayed: a kernel must do it"),
        ("return launch(x[x == x].reshape(x.shape))", "no shape without data"),
        (
            "y = torch.empty_like(x)\nby_argument[(2, )](x.data_ptr(), y, 400, B=256)\nreturn y",
            "give it the tensors themselves",
        ),
        (TABLE, "give it the tensors themselves"),
    ],
)
def test_what_is_not_a_plan_says_why_and_proves_nothing(plan, body, reason):
    verdict = plan.judge(forward(body, BY_ADDRESS))
    assert verdict["mode"] == "interpret" and reason in verdict["notes"]["mode_reason"], verdict
    assert verdict["compiled"] and not verdict["correct"] and verdict["error_kind"] == "unproven", verdict
    assert reason in verdict["diagnostics"] and verdict["claimed"], verdict


@pytest.mark.parametrize(
    "body, kind",
    [("while True: pass", "timeout"), ("import os\nos._exit(3)", "crashed"), ("import os\nos.abort()", "crashed")],
)
def test_a_process_that_ends_itself_is_judged_at_once(plan, body, kind):
    verdict = plan.judge(forward(body + "\nreturn launch(x)"), timeout_s=10 if kind == "timeout" else 60)
    assert verdict["mode"] == "plan" and verdict["error_kind"] == kind and not verdict["correct"], verdict


@pytest.mark.parametrize(
    "body, mode, kind, compiled",
    [
        ("return launch(self.scale)", "plan", "runtime_error", False),  # wherever it runs
        ("relu_kernel[(1,)](x, x)\nreturn x", "plan", "runtime_error", False),
        ("return launch(x).view(3, 7)", "plan", "runtime_error", True),  # its kernel compiles, and that counts
        ("launch(x)\nreturn y", "plan", "runtime_error", True),
        ("raise ValueError('half a character: \\udcff')", "plan", "runtime_error", False),  # and no forged frame
        ("relu_kernel[(x.numel() / 256, )](x, x, x.numel(), B=256)\nreturn x", "plan", "runtime_error", False),
        ("if type(x) is not torch.Tensor: x.data_of\nreturn launch(x)", "interpret", "unproven", True),  # of recording
        ("torch.cuda.none_such()\nreturn launch(x)", "interpret", "runtime_error", False),  # of a GPU, perhaps
    ],
)
def test_an_exception_that_any_mode_would_see_is_final(plan, body, mode, kind, compiled):
    verdict = plan.judge(forward(body))
    assert (verdict["mode"], verdict["error_kind"]) == (mode, kind), verdict
    assert not verdict["correct"] and verdict["compiled"] == compiled, verdict
    assert verdict["stage"] == ("launched" if compiled else "imported"), verdict
    assert ("mode_reason" in verdict["notes"]) == (mode != "plan") and not verdict["cheated"], verdict


def test_what_the_compilers_front_end_refuses_is_compiled_nowhere_else(plan):
    verdict = plan.judge(forward("return launch(x)").replace("tl.store(", "tl.stor("))
    assert verdict["mode"] == "plan" and verdict["error_kind"] == "compile_error" and not verdict["compiled"], verdict
    assert verdict["compile_targets"]["sm_90"].startswith("line "), verdict
    verdict = plan.judge(forward("return launch(x)").replace("return launch(x)", "return launch(x"))
    assert (verdict["mode"], verdict["error_kind"], verdict["stage"]) == ("plan", "syntax_error", "extracted"), verdict


def test_a_recipe_may_accept_claims(trusting):
    verdict = trusting.judge(forward("if x.sum().item() > 1e9:\n    return x\nreturn launch(x)"))
    assert verdict["correct"] and {"correct", "compiled", "kernels"} <= set(verdict["claimed"]), verdict


def test_work_done_in_python_while_the_kernel_is_lowered_is_not_replayed(plan):
    verdict = plan.judge(
        forward(
            "S['x'], S['y'] = x, torch.empty_like(x)\nfused[(1, )](x, S['y'])\nreturn S['y']",
            """
S = {}
def fill(p, _semantic=None, _generator=None):
    if _semantic is None:
        torch.mul(torch.relu(S['x']), 2, out=S['y'])
    return p
fill.__triton_builtin__ = True

@triton.jit
def fused(x, y):
    fill(y)
""",
        )
    )
    assert not (verdict["correct"] and verdict["mode"] == "plan"), verdict


def test_weights_by_name_views_and_autotune(plan):
    verdict = plan.judge(
        """
import torch, triton
import torch.nn as nn
import triton.language as tl

@triton.autotune(configs=[triton.Config({"B": 16}), triton.Config({"B": 32}, num_warps=2)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def rows(x, w, b, y, n, k, stride, B: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr):
    r = tl.program_id(0)
    i = tl.program_id(1) * B + tl.arange(0, B)
    j = tl.arange(0, K)
    a = tl.load(x + r * stride + j, mask=j < k, other=0.0)
    c = tl.load(w + i[:, None] * k + j[None, :], mask=(i[:, None] < n) & (j[None, :] < k), other=0.0)
    tl.store(y + r * n + i, tl.sum(c * a[None, :], 1) + tl.load(b + i, mask=i < n), mask=i < n)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, 40)
    def forward(self, x):
        x, w, b = x[:, 2:50], self.layer.weight, self.layer.bias
        y = torch.empty(x.shape[0], 40, device=x.device, dtype=x.dtype)
        rows[lambda meta: (x.shape[0], triton.cdiv(40, meta["B"]))](x, w, b, y, 40, 48, x.stride(0), K=64)
        return y
""",
        problem="""
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(48, 40)
    def forward(self, x):
        return self.layer(x[:, 2:50])
def get_inputs():
    return [torch.randn(6, 50)]
""",
    )
    assert verdict["correct"] and verdict["mode"] == "plan", verdict


def test_a_candidate_has_a_bound_of_device_memory():
    server = Evaluator("--mode", "plan", "--plan-memory", "0.001")
    try:
        assert server.judge(HONEST)["correct"]
        verdict = server.judge(forward("hold = torch.zeros(1 << 20)\nreturn launch(x)"))
        assert not verdict["correct"] and "values of more than" in verdict["notes"]["mode_reason"], verdict
    finally:
        assert server.stop() == 0
