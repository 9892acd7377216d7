"""Mode plan on a real GPU: what was recorded without one is replayed and timed by the trusted side. Skipped without a
GPU."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import test_autotune
import test_corpus
from evaluator_server import BINARY, HEADER, Evaluator, repeated_sines, sines_kernel

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA GPU here")

PROBLEM = repeated_sines(20)
HONEST = sines_kernel(20)
FORWARD = "    def forward(self, x):\n"
# All the work where the current stream does not see it, not even waiting for it.
SIDE_STREAM = HONEST.replace(
    FORWARD,
    "    def __init__(self):\n        super().__init__()\n        self.side = torch.cuda.Stream(priority=-1)\n\n"
    "    def forward(self, x):\n        with torch.cuda.stream(self.side):\n            return self.on(x)\n\n"
    "    def on(self, x):\n",
)
PATCHED_EVENTS = HONEST + "\nE = torch.cuda.Event\nE.elapsed_time = lambda start, end: 1e-3\n"
# Python that remembers an answer: a plan has no Python.
MEMO = HONEST.replace(
    FORWARD,
    "    known = {}\n\n    def forward(self, x):\n        if 'y' in self.known:\n            return self.known['y']\n"
    "        self.known['y'] = self.on(x)\n        return self.known['y']\n\n    def on(self, x):\n",
)
# A kernel that remembers an answer in memory of its own, and what it was the answer to.
MEMO_ON_DEVICE = (
    HONEST.replace(
        """    a = tl.load(x + i, mask=i < n)
    for _ in range(20):
        a = tl.sin(a) * 2
    tl.store(y + i, a, mask=i < n)
""",
        """    a = tl.load(x + i, mask=i < n)
    if tl.load(of + tl.program_id(0)) == tl.load(x + tl.program_id(0) * B):
        a = tl.load(memo + i, mask=i < n)
    else:
        for _ in range(20):
            a = tl.sin(a) * 2
        tl.store(memo + i, a, mask=i < n)
        tl.store(of + tl.program_id(0), tl.load(x + tl.program_id(0) * B))
    tl.store(y + i, a, mask=i < n)
""",
    )
    .replace("def sines(x, y, n,", "def sines(x, y, of, memo, n,")
    .replace(
        FORWARD,
        "    def __init__(self):\n        super().__init__()\n        self.of = torch.zeros(4096, device='cuda')\n"
        "        self.memo = torch.zeros(1 << 22, device='cuda')\n\n" + FORWARD,
    )
    .replace("def work(x)", "def work(x, of, memo)")
    .replace("return work(x)", "return work(x, self.of, self.memo)")
    .replace("(x, y, x.numel(), B", "(x, y, of, memo, x.numel(), B")
)
OUT_OF_BOUNDS = HONEST.replace("tl.store(y + i, a, mask=i < n)", "tl.store(y + i + 64, a)")
FAR_OUT_OF_BOUNDS = HONEST.replace("tl.store(y + i, a, mask=i < n)", "tl.store(y + i.to(tl.int64) * (1 << 30), a)")
ENDLESS = HONEST.replace(
    "    for _ in range(20):\n",
    "    k = 0\n    while tl.atomic_add(y, 0.0) > -1e30:\n        k += 1\n    for _ in range(20):\n",
).replace("torch.empty_like(x)", "torch.zeros_like(x)")
# A second kernel for show, far more of it than of torch's product.
FOR_SHOW = """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x
        for _ in range(20):
            y = torch.sin(y) * 2
        z = torch.empty_like(x)
        for _ in range(9):
            sines[(triton.cdiv(x.numel(), 1024), )](x, z, x.numel(), B=1024)
        return y
"""


@pytest.fixture(scope="module")
def server():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "plan", "--device", "cuda:0", "--workers", "6")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def honest(server):
    return server.judge(HONEST, PROBLEM)


def test_what_ends_while_it_is_recorded_does_not_have_the_gpu_probed(server, honest):
    assert honest["correct"], honest
    before = server.get("/gpu_status")["devices"][0]["probes"]
    verdict = server.judge(HONEST.replace("torch.empty_like", "torch.empty_unlike"), PROBLEM)
    assert verdict["error_kind"] == "runtime_error" and verdict["stage"] == "imported", verdict
    assert server.get("/gpu_status")["devices"][0]["probes"] == before


def test_an_honest_kernel_is_timed(honest):
    assert honest["correct"] and honest["stage"] == "timed" and not honest["cheated"], honest
    # torch.compile makes one kernel of the same work.
    assert 0.8 < honest["speedup"] == honest["speedup_low"] <= honest["speedup_high"] < 2, honest
    assert honest["mode"] == "plan" and honest["own_share"] == 1 and not honest["claimed"], honest


def test_the_profile_says_what_limits_it(honest):
    profile = honest["profile"]
    kernel = profile["kernels"][0]
    assert kernel["name"] == "sines" and kernel["registers"] > 0 and kernel["share"] == 1 and kernel["occupancy"] > 0
    assert 0 < profile["floor_ms"] < honest["runtime"]["median"]
    assert 0 < profile["bytes_per_s"] < profile["peak_bytes_per_s"]
    assert profile["clock_mhz"] > 0 and profile["power_w"] > 0
    assert set(profile["baselines"]) == {"eager", "torch.compile"} and honest["ref_runtime"]["median"] == min(
        profile["baselines"].values()
    )
    for name in ("eager", "torch_compile"):
        baseline = profile["baselines"][name.replace("_", ".")]
        assert honest[f"{name}_runtime"]["median"] == baseline, honest
    assert honest["speedup"] == min(honest["eager_speedup"], honest["torch_compile_speedup"]), honest


def test_torch_compiles_version_is_timed_once_for_a_problem(server, honest):
    other = server.judge(HONEST + "# another\n", PROBLEM)
    assert other["torch_compile_runtime"] == honest["torch_compile_runtime"], (honest, other)
    notes = {verdict["notes"]["torch_compile"] for verdict in (honest, other)}
    assert len(notes) == 1 and "timed once" in notes.pop(), (honest, other)
    assert other["torch_compile_speedup"] > 0 and other["speedup"] <= other["torch_compile_speedup"], other


@pytest.mark.parametrize(
    "candidate", [SIDE_STREAM, PATCHED_EVENTS, MEMO, MEMO_ON_DEVICE], ids=("stream", "events", "memo", "memory")
)
def test_no_trick_shortens_the_time(server, honest, candidate):
    """Each is right; none is faster than the work that it hides: there is one stream, our clock, memory of one call."""
    verdict = server.judge(candidate, PROBLEM)
    assert verdict["stage"] == "timed", verdict
    assert verdict["runtime"]["median"] > 0.9 * honest["runtime"]["median"], (verdict, honest)


@pytest.fixture(scope="module")
def sound(server):
    verdict = server.judge(*reversed(test_corpus.parts(test_corpus.SOUND_TIME)))
    assert verdict["stage"] == "timed", verdict
    return verdict


@pytest.mark.parametrize("path", test_corpus.cases(test_corpus.TIMING))
def test_a_cheat_at_the_clock_takes_as_long_as_honest_work(server, sound, path):
    """Nor does it make eager slow. Of what is no plan nothing is timed that counts."""
    verdict = server.judge(*reversed(test_corpus.parts(path)))
    if not (verdict["correct"] and verdict["mode"] == "plan"):
        assert verdict["speedup"] == 0, verdict
        return
    assert verdict["stage"] == "timed", verdict
    assert verdict["runtime"]["median"] > 0.9 * sound["runtime"]["median"], (verdict, sound)
    assert verdict["eager_runtime"]["median"] < 1.25 * sound["eager_runtime"]["median"], (verdict, sound)


SCALED = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(1 << 22)]
"""


def test_what_a_kernel_asks_the_l2_to_keep_is_flushed_with_the_rest(server):
    """16 MB read and written, all of it memory's time: twice as fast where it is still there from the call before."""
    honest = HEADER.replace("tl.maximum(a, 0.0) * 2", "a * 2").replace("256", "1024") + (
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        return launch(x)\n"
    )
    keeping = re.sub(r"tl\.(load|store)\((.*)\)", r'tl.\1(\2, eviction_policy="evict_last")', honest)
    assert keeping.count("evict_last") == 2, keeping
    plain, kept = (server.judge(candidate, SCALED) for candidate in (honest, keeping))
    assert plain["stage"] == kept["stage"] == "timed", (plain, kept)
    assert kept["runtime"]["median"] > 0.85 * plain["runtime"]["median"], (plain, kept)


def test_a_write_out_of_bounds_names_kernel_and_buffer(server):
    verdict = server.judge(OUT_OF_BOUNDS, PROBLEM)
    assert verdict["error_kind"] == "runtime_error" and not verdict["correct"], verdict
    assert "kernel sines" in verdict["diagnostics"] and "out of bounds of 'y'" in verdict["diagnostics"], verdict


def test_a_fault_of_the_device_names_the_kernel_and_stays_with_its_candidate(server):
    verdict = server.judge(FAR_OUT_OF_BOUNDS, PROBLEM)
    assert verdict["error_kind"] == "runtime_error" and "kernel sines" in verdict["diagnostics"], verdict
    assert server.judge(HONEST + "# after a fault\n", PROBLEM)["correct"]


def test_a_kernel_without_an_end_is_ended(server):
    verdict = server.judge(ENDLESS, PROBLEM, timeout_s=20)
    assert verdict["error_kind"] in ("runtime_error", "timeout") and not verdict["correct"], verdict
    assert server.judge(HONEST + "# after a hang\n", PROBLEM)["correct"]


def test_kernels_for_show_are_no_share(server):
    verdict = server.judge(HONEST.partition("class ModelNew")[0] + FOR_SHOW, PROBLEM)
    assert "torch_does_the_work" in {flag["name"] for flag in verdict["flags"]}, verdict


def test_the_recording_child_has_no_gpu(server):
    probe = HEADER + (
        "import os\nassert not os.path.exists('/dev/nvidiactl') and not os.path.exists('/dev/nvidia0'), 'a GPU'\n"
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        return launch(x)\n"
    )
    verdict = server.judge(probe)
    assert verdict["correct"], verdict


@pytest.fixture(scope="module")
def corpus(server):
    paths = [*test_corpus.HONEST, *test_corpus.CHEATS]

    def judge(path):
        problem, candidate = test_corpus.parts(path)
        return server.judge(candidate, problem, measure_performance=False, timeout_s=test_corpus.timeout_of(path))

    with ThreadPoolExecutor(6) as pool:
        return dict(zip(paths, pool.map(judge, paths)))


def test_the_corpus_gets_the_verdicts_of_the_cpu(corpus, capsys):
    """What the CPU refuses or accepts by mistake (xfail) may be right here, and what a case says of a GPU counts."""
    wrong = {
        path.stem: (verdict["error_kind"], verdict["notes"].get("mode_reason"), verdict["diagnostics"][:300])
        for path, verdict in corpus.items()
        if verdict["correct"] != (path in test_corpus.HONEST)
    }
    with capsys.disabled():
        looked = sum(verdict["notes"].get("races", "").startswith(("none", "found")) for verdict in corpus.values())
        print(
            f"\non a GPU: {len(corpus)} of the corpus, {len(wrong)} wrong {list(wrong)}, races looked for in {looked}"
        )
    wrong = {name: why for name, why in wrong.items() if not is_told(path_of(corpus, name), corpus)}
    assert not wrong, wrong


def is_told(path, corpus):
    """Whether the case itself says that it is judged otherwise here: accepted, or refused by what it names."""
    of_a_gpu = test_corpus.line(path, "on a gpu").split(",")[0]
    found = {"accepted"} if corpus[path]["correct"] else test_corpus.mechanisms(corpus[path])
    return bool(test_corpus.line(path, "xfail")) or of_a_gpu in found


def path_of(corpus, name):
    return next(path for path in corpus if path.stem == name)


RACES = [path for path in test_corpus.CHEATS if path.stem in ("c8_relaxed_counter", "c8_waits_for_the_next")]


def test_a_race_is_found_beside_the_gpu(corpus):
    for path in RACES:
        verdict = corpus[path]
        assert verdict["error_kind"] == "runtime_error" and verdict["notes"]["races"] == "found", verdict
        assert verdict["device"] != "cpu" and "on a CPU at the problem's own sizes" in verdict["diagnostics"], verdict


def test_without_the_look_for_races_nothing_else_changes(corpus):
    server = Evaluator("--mode", "plan", "--device", "cuda:0", "--no-race-check")
    try:
        path = test_corpus.CORPUS / "honest" / "softmax_online.py"
        problem, candidate = test_corpus.parts(path)
        with_it, without = corpus[path], server.judge(candidate, problem, measure_performance=False)
        assert with_it["notes"].pop("races") == "none, on a CPU at the problem's own sizes", with_it
        assert "races" not in without["notes"]
        ignored = ("wall_s", "seconds", "own_share", "trials", "seed")
        for verdict in (with_it, without):
            for name in ignored:
                verdict.pop(name, None)
        assert with_it == without
        problem, candidate = test_corpus.parts(RACES[0])
        assert server.judge(candidate, problem, measure_performance=False)["notes"].get("races") is None
    finally:
        assert server.stop() == 0


def tuned_sines(configs):
    """`WASTE`: ten times the work."""
    kernel = HONEST.replace("n, B: tl.constexpr", "n, B: tl.constexpr, WASTE: tl.constexpr").replace(
        "    for _ in range(20):\n",
        "    w = a\n    for _ in range(200 if WASTE else 0):\n        w = tl.sin(w) * 2\n    for _ in range(20):\n",
    )
    return (
        kernel.replace("@triton.jit", f"@triton.autotune(configs=[{', '.join(configs)}], key=['n'])\n@triton.jit")
        .replace("tl.store(y + i, a, ", "tl.store(y + i, tl.where(w > 1e30, w, a), ")
        .replace("sines[(triton.cdiv(x.numel(), 1024),)]", "sines[lambda m: (triton.cdiv(x.numel(), m['B']),)]")
        .replace(", B=1024)", ")")
    )


def test_the_fastest_configuration_is_timed(server, honest):
    """That of the largest tile, which every trial runs, is not."""
    configs = [
        f"triton.Config({{'B': {b}, 'WASTE': {waste}}})" for b, waste in ((512, True), (1024, False), (2048, True))
    ]
    verdict = server.judge(tuned_sines(configs), PROBLEM)
    assert verdict["correct"] and verdict["stage"] == "timed", verdict
    assert verdict["notes"]["configuration"] == "sines (B 1024, WASTE False, num_warps 4, num_stages 3)", verdict
    (kernel,) = verdict["profile"]["kernels"]
    assert kernel["configuration"] == "B 1024, WASTE False, num_warps 4, num_stages 3" and kernel["share"] == 1, verdict
    assert verdict["runtime"]["median"] < 1.2 * honest["runtime"]["median"], (verdict, honest)


def test_a_wrong_configuration_is_wrong_on_a_gpu(server):
    configs = [f"triton.Config({{'B': {b}, 'WASTE': False}})" for b in (1024, 2048)]
    candidate = tuned_sines(configs).replace("w > 1e30, w, a)", "w > 1e30, w, a * 2 if B == 1024 else a)")
    verdict = server.judge(candidate, PROBLEM)
    assert verdict["error_kind"] == "mismatch" and "sines (B 1024" in verdict["diagnostics"], verdict


def test_a_configuration_without_room_is_passed_over(server):
    configs = "triton.Config({'B': 32}), " + test_autotune.TOO_LARGE
    verdict = server.judge(test_autotune.MATMUL.replace("CONFIGS", configs), test_autotune.PRODUCT)
    assert verdict["correct"] and "not for sm_90" in verdict["notes"]["autotune"], verdict
    assert verdict["profile"]["kernels"][0]["configuration"].startswith("B 32"), verdict


def test_a_configurations_hook_runs_with_it(server):
    hook = ", pre_hook=zero"
    configs = f"{test_autotune.config(32, hook)}, {test_autotune.config(64, hook)}"
    verdict = server.judge(test_autotune.zeroed(configs, ""), test_autotune.PROBLEM)
    assert verdict["correct"] and verdict["stage"] == "timed" and verdict["own_share"] > 0.5, verdict


RELU = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

batch_size = 4096
dim = 393216

def get_inputs():
    return [torch.randn(batch_size, dim)]
"""


def test_a_convolution_in_float32_is_right_where_cudnn_would_use_tf32(server):
    problem, candidate = test_corpus.parts(test_corpus.CORPUS / "honest" / "conv2d_implicit_gemm.py")
    problem = problem.replace("torch.randn(2, 5, 11, 13)", "torch.randn(8, 64, 56, 56)").replace(
        "[5, 8, 3]", "[64, 64, 3]"
    )
    assert "8, 64, 56" in problem and "64, 64, 3" in problem
    verdict = server.judge(candidate, problem)
    assert verdict["correct"] and verdict["stage"] == "timed", verdict
    in_tf32 = server.judge(candidate.replace('"ieee"', '"tf32"'), problem)
    assert in_tf32["error_kind"] == "mismatch" and "tf32" in in_tf32["diagnostics"], in_tf32


def test_kernelbenchs_own_sizes_are_judged(server):
    """6.4 GB a tensor, 19 GB a trial: drawn where it is replayed. Wrong is what is wrong in one of 1.6 billion."""
    memory = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    if int(subprocess.check_output(memory, text=True).split()[0]) < 70_000:
        pytest.skip("takes some 60 GB of a GPU")
    honest = (
        HEADER.replace("tl.maximum(a, 0.0) * 2", "tl.maximum(a, 0.0)").replace("256", "1024")
        + """
class ModelNew(nn.Module):
    def forward(self, x):
        return launch(x)
"""
    )
    wrong = honest.replace("tl.maximum(a, 0.0)", "tl.where(i == 1234567890, 9.0, tl.maximum(a, 0.0))")
    right, one_off = (server.judge(candidate, RELU) for candidate in (honest, wrong))
    assert right["correct"] and right["speedup"] > 0.5, right
    assert one_off["error_kind"] == "mismatch" and "(1 of 1610612736 wrong)" in one_off["diagnostics"], one_off
