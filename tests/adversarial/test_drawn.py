"""Plan mode where inputs and expected outputs are drawn by the replayer (src/evaluate/plan/drawn.h): the way of a GPU,
asked for on a CPU. That it judges as the other way does: test_corpus.py."""

import pytest

import test_corpus
from evaluator_server import HEADER, HONEST, PROBLEM, Evaluator

SAMPLED = 1 << 16  # elements of a tensor that the trusted side looks at
LARGE = PROBLEM.replace("torch.randn(4, 100)", f"torch.randn(3, {SAMPLED // 2 - 3})")  # within the budget of a CPU
COUNT = 3 * (SAMPLED // 2 - 3)


@pytest.fixture(scope="module")
def drawing():
    server = Evaluator("--mode", "plan", "--trial-data", "drawn")
    yield server
    assert server.stop() == 0


def drawn(verdict):
    return verdict["notes"].get("trials", "").startswith("drawn by the replayer")


def test_one_wrong_element_of_many_is_found_wherever_it_is(drawing):
    """Most of its places are in no sample of the trusted side's: the replayer looks at all of them."""
    for place in (0, 1, COUNT // 2, COUNT - 1):
        wrong = HONEST.replace("tl.maximum(a, 0.0) * 2", f"tl.where(i == {place}, 7.0, tl.maximum(a, 0.0) * 2)")
        verdict = drawing.judge(wrong, LARGE)
        row, column = divmod(place, COUNT // 3)
        assert drawn(verdict) and verdict["error_kind"] == "mismatch", verdict
        assert f"output 0 at [{row}, {column}]: 7, expected" in verdict["diagnostics"]
        assert f"(1 of {COUNT} wrong)" in verdict["diagnostics"]


def test_one_changed_element_of_an_input_is_found(drawing):
    change = HONEST.replace("    tl.store(y", "    tl.store(x + i, a + 1, mask=i == 77777)\n    tl.store(y")
    verdict = drawing.judge(change, LARGE)
    assert drawn(verdict) and [f["name"] for f in verdict["flags"] if f["cheat"]] == ["input_mutated"], verdict
    assert not verdict["correct"]


def test_a_shape_of_as_many_elements_is_another_shape(drawing):
    verdict = drawing.judge(HONEST.replace("return launch(x)", "return launch(x).reshape(-1)"), LARGE)
    assert drawn(verdict) and verdict["error_kind"] == "mismatch"
    assert f"has shape [{COUNT}], expected [3, {COUNT // 3}]" in verdict["diagnostics"]


def test_a_kernel_that_does_nothing_is_found(drawing):
    idle = HEADER + (
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        launch(x)\n        return torch.relu(x) * 2\n"
    )
    verdict = drawing.judge(idle, LARGE)
    assert drawn(verdict) and not verdict["correct"] and verdict["flags"], verdict


def test_a_module_bears_witness_once_whatever_the_seeds(drawing):
    problem = LARGE.replace("* 2", "* 2 + 1")
    right, wrong = HONEST.replace(" * 2, mask", " * 2 + 1, mask"), HONEST
    asked = drawing.get("/health")["report"]["references_asked"]
    for seed in range(4):
        verdict = drawing.judge(right, problem, seed=seed)
        assert drawn(verdict) and verdict["correct"], verdict
        assert drawing.judge(wrong, problem, seed=seed)["error_kind"] == "mismatch"
    assert drawing.get("/health")["report"]["references_asked"] == asked + 1


@pytest.mark.parametrize(
    "inputs",
    [
        "[torch.from_numpy(numpy.random.rand(4, 100).astype('float32'))]",  # not torch's own generator
        "[torch.tensor([[random.random() for _ in range(100)] for _ in range(4)])]",
        "[torch.poisson(torch.full((4, 100), 3.0))]",  # an operation that no plan may have
        "[torch.randn(4, 100, generator=torch.Generator().manual_seed(random.getrandbits(30)))]",
    ],
)
def test_inputs_that_no_plan_draws_are_handed(drawing, inputs):
    problem = "import random\nimport numpy\n" + PROBLEM.replace("[torch.randn(4, 100)]", inputs)
    verdict = drawing.judge(HONEST, problem)
    assert verdict["correct"] and verdict["mode"] == "plan" and not drawn(verdict), verdict
    assert drawing.judge(HONEST.replace("* 2", "* 3"), problem)["error_kind"] == "mismatch"


def test_inputs_of_every_kind_are_drawn(drawing):
    problem = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, scale, places, flags):
        return torch.where(flags, x * scale, x)[places]

def get_inputs():
    x = torch.rand(64, 32).t().contiguous().t()
    return [x * 2 - 1, 1.5, torch.randint(0, 64, (20,)), torch.randn(64, 32) > 0]
"""
    candidate = HEADER.replace(
        "    a = tl.load(x + i, mask=i < n)\n    tl.store(y + i, tl.maximum(a, 0.0) * 2, mask=i < n)",
        "    row = tl.load(places + i // 32, mask=i < n, other=0)\n"
        "    a = tl.load(x + row + 64 * (i % 32), mask=i < n)\n"
        "    on = tl.load(flags + row * 32 + i % 32, mask=i < n, other=0)\n"
        "    tl.store(y + i, tl.where(on != 0, a * scale, a), mask=i < n)",
    ).replace("relu_kernel(x, y, n,", "relu_kernel(x, scale, places, flags, y, n,")
    candidate = (
        candidate.split("def launch")[0]
        + """
class ModelNew(nn.Module):
    def forward(self, x, scale, places, flags):
        y = torch.empty(20, 32, device=x.device)
        relu_kernel[(3, )](x, scale, places, flags, y, 640, B=256)
        return y
"""
    )
    verdict = drawing.judge(candidate, problem)
    assert drawn(verdict) and verdict["correct"], verdict


def test_lengths_that_are_the_whole_are_drawn_shorter_there_too(drawing):
    problem, candidate = test_corpus.parts(test_corpus.CORPUS / "honest" / "lengths_that_drop_nothing.py")
    verdict = drawing.judge(candidate, problem)
    assert drawn(verdict) and verdict["correct"] and verdict["notes"]["draw"] in ("signed", "wide"), verdict
    for read in ("tl.load(lengths + row // steps)", "tl.load(mask + row)"):
        whole = candidate.replace(read, "steps" if "lengths" in read else "1")
        assert drawing.judge(whole, problem)["error_kind"] == "mismatch", read
