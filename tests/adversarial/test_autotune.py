"""@triton.autotune in plan mode: whatever configuration a tuner may choose is judged. Where times are measured the
fastest is timed: test_plan_gpu.py."""

import pytest

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.exp().sum(-1)

def get_inputs():
    return [torch.randn(24, 200)]
"""
# A row a program, its sum block by block: DOES is done with the values of a block, then out.
ROWS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

DECORATOR
@triton.jit
def rows(x, y, n, B: tl.constexpr):
    r = tl.program_id(0)
    total = 0.0
    for j in range(0, n, B):
        i = j + tl.arange(0, B)
        a = tl.exp(tl.load(x + r * n + i, mask=i < n, other=float("-inf")))
        BODY
        total += tl.sum(a)
    tl.store(y + r, total)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        rows[(x.shape[0], )](x, y, x.shape[1]LAST)
        return y
"""


def tuned(configs, body="pass", more=""):
    decorator = f"@triton.autotune(configs=[{', '.join(configs)}], key=['n']{more})"
    return ROWS.replace("DECORATOR", decorator).replace("BODY", body).replace("LAST", "")


def config(block, more=""):
    return f"triton.Config({{'B': {block}}}{more})"


def test_right_configurations_are_right(plan):
    verdict = plan.judge(tuned([config(32), config(64, ", num_warps=2"), config(256)]), PROBLEM)
    assert verdict["correct"] and verdict["mode"] == "plan" and verdict["own_share"] == 1, verdict
    assert len(verdict["trials"]) == 3 and "autotune" not in verdict["notes"], verdict


@pytest.mark.parametrize("wrong", (32, 64, 256))
def test_one_wrong_configuration_is_a_wrong_kernel(plan, wrong):
    body = f"a = a * 2 if B == {wrong} else a"
    verdict = plan.judge(tuned([config(32), config(64), config(256)], body), PROBLEM)
    assert verdict["error_kind"] == "mismatch" and not verdict["correct"], verdict
    # The largest is that of every trial; of the others it is said which one is wrong.
    named = f"a configuration that the autotuner may choose, rows (B {wrong}, num_warps 4, num_stages 3)"
    assert (named in verdict["diagnostics"]) == (wrong != 256), verdict


def test_a_race_in_one_configuration_is_found(plan):
    body = "if B == 64:\n            tl.store(y, total)"
    verdict = plan.judge(tuned([config(64), config(256)], body), PROBLEM)
    assert verdict["error_kind"] == "runtime_error" and "B 64" in verdict["diagnostics"], verdict


def test_what_the_tuner_chooses_is_not_given_by_the_launch(plan):
    source = tuned([config(64), config(256)]).replace("x.shape[1])", "x.shape[1], B=64)")
    verdict = plan.judge(source, PROBLEM)
    assert verdict["error_kind"] == "runtime_error" and "B: given by the launch and by" in verdict["diagnostics"], (
        verdict
    )


def test_one_configuration_is_no_choice(plan):
    alone = plan.judge(tuned([config(64, ", num_warps=2")]), PROBLEM, fresh_seeds=False)
    plain = ROWS.replace("DECORATOR", "").replace("BODY", "pass").replace("LAST", ", B=64, num_warps=2, num_stages=3")
    untuned = plan.judge(plain, PROBLEM, fresh_seeds=False)
    twice = plan.judge(tuned([config(64, ", num_warps=2")] * 2), PROBLEM, fresh_seeds=False)
    for verdict in (alone, untuned, twice):
        verdict.pop("wall_s")
        verdict.pop("seconds")
    assert alone["correct"] and alone == untuned == twice, (alone, untuned, twice)


MATMUL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune(configs=[CONFIGS], key=["n"])
@triton.jit
def product(a, b, c, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), dtype=tl.float32)
    for s in range(0, n, 64):
        k = s + tl.arange(0, 64)
        u = tl.load(a + i[:, None] * n + k[None, :], mask=(i[:, None] < n) & (k[None, :] < n), other=0.0)
        v = tl.load(b + k[:, None] * n + j[None, :], mask=(k[:, None] < n) & (j[None, :] < n), other=0.0)
        total = tl.dot(u, v, total)
    tl.store(c + i[:, None] * n + j[None, :], total, mask=(i[:, None] < n) & (j[None, :] < n))

class ModelNew(nn.Module):
    def forward(self, a, b):
        c, n = torch.empty_like(a), a.shape[0]
        product[lambda meta: (triton.cdiv(n, meta["B"]), triton.cdiv(n, meta["B"]))](a, b, c, n)
        return c
"""
PRODUCT = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randn(96, 96).half(), torch.randn(96, 96).half()]
"""
TOO_LARGE = "triton.Config({'B': 256}, num_warps=8, num_stages=6)"


def test_what_a_device_has_no_room_for_is_passed_over_as_by_a_tuner(plan):
    verdict = plan.judge(MATMUL.replace("CONFIGS", "triton.Config({'B': 32}), " + TOO_LARGE), PRODUCT)
    assert verdict["correct"] and verdict["compile_targets"] == {"sm_90": "ok"}, verdict
    note = verdict["notes"]["autotune"]
    assert "product (B 256, num_warps 8, num_stages 6) not for sm_90" in note and "shared memory" in note, verdict


def test_where_it_fits_nowhere_it_is_an_error(plan):
    verdict = plan.judge(
        MATMUL.replace("CONFIGS", f"{TOO_LARGE}, {TOO_LARGE.replace('stages=6', 'stages=5')}"), PRODUCT
    )
    assert verdict["error_kind"] == "compile_error" and "shared memory" in verdict["diagnostics"], verdict


def test_a_static_assertion_passes_over_a_configuration(plan):
    verdict = plan.judge(tuned([config(32), config(1024)], "tl.static_assert(B < 1024)"), PROBLEM)
    assert verdict["correct"], verdict
    none = plan.judge(tuned([config(2048), config(1024)], "tl.static_assert(B < 1024, 'too large')"), PROBLEM)
    assert none["error_kind"] == "compile_error" and "too large" in none["diagnostics"], none


def test_what_does_not_compile_in_one_configuration_is_an_error(plan):
    verdict = plan.judge(tuned([config(32), config(48)]), PROBLEM)
    assert verdict["error_kind"] == "compile_error" and "power of 2" in verdict["diagnostics"], verdict


def test_pruning_and_heuristics_are_the_candidates(plan):
    body = "a = a * 2 if B == 16 or HALF != B // 2 else a"
    pruned = tuned(
        [config(16), config(32), config(64)],
        body,
        ", prune_configs_by={'early_config_prune': lambda configs, named, **kw: [c for c in configs if "
        "c.kwargs['B'] > 16 and named['n'] == 200]}",
    )
    candidate = pruned.replace(
        "@triton.jit", "@triton.heuristics({'HALF': lambda args: args['B'] // 2})\n@triton.jit"
    ).replace("B: tl.constexpr", "B: tl.constexpr, HALF: tl.constexpr")
    verdict = plan.judge(candidate, PROBLEM)
    assert verdict["correct"] and "autotune" not in verdict["notes"], verdict


# Several programs a row add up in y, which somebody has to zero before each launch.
ATOMIC = ROWS.replace("tl.store(y + r, total)", "tl.atomic_add(y + r, total)")


def zeroed(configs, more):
    decorator = f"def zero(args):\n    args['y'].zero_()\n\n@triton.autotune(configs=[{configs}], key=['n']{more})"
    return ATOMIC.replace("DECORATOR", decorator).replace("BODY", "pass").replace("LAST", "")


def test_a_configurations_hook_is_called_before_each_of_its_launches(plan):
    hook = ", pre_hook=zero"
    assert plan.judge(zeroed(f"{config(32, hook)}, {config(64, hook)}", ""), PROBLEM)["correct"]
    one_without = plan.judge(zeroed(f"{config(32)}, {config(64, hook)}", ""), PROBLEM)
    assert not one_without["correct"] and "B 32" in one_without["diagnostics"], one_without


@pytest.mark.parametrize(
    "more", (", reset_to_zero=['y']", ", pre_hook=lambda args, reset_only=False: args['y'].zero_()")
)
def test_what_a_tuner_does_while_it_times_is_not_done_in_later_calls(plan, more):
    verdict = plan.judge(zeroed(f"{config(32)}, {config(64)}", more), PROBLEM)
    assert not verdict["correct"], verdict


def test_what_follows_the_choice_is_of_one_configuration(plan):
    candidate = tuned([config(32), config(64)]).replace(
        "        return y", "        return y if rows.best_config.kwargs['B'] == 64 else y + 1"
    )
    verdict = plan.judge(candidate, PROBLEM)
    assert verdict["correct"] and "rows: 1 further configurations" in verdict["notes"]["autotune"], verdict


def test_a_long_list_is_cut(plan):
    configs = [config(block, f", num_warps={warps}") for block in (16, 32, 64, 128) for warps in (1, 2, 4)]
    verdict = plan.judge(tuned(configs), PROBLEM)
    assert verdict["correct"] and "rows: 4 further configurations" in verdict["notes"]["autotune"], verdict
