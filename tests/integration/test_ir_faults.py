"""The evaluator of Triton IR: what is refused and found: bounds, races, what never ends (triton_ir.py says how)."""

import os

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl

import triton_ir

if triton_ir.BESIDE_GPU:
    pytest.skip("what is refused and found is the evaluator's alone", allow_module_level=True)
if not os.path.exists(triton_ir.IR_RUN):
    pytest.skip(f"no {triton_ir.IR_RUN}", allow_module_level=True)


@triton.jit
def unmasked(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) + n)


def test_out_of_bounds_names_buffer_element_program_and_line(runner):
    reply = runner.launch(unmasked, (2,), [torch.zeros(100), torch.zeros(128), 100], {"B": 64}, seed=1)
    assert "element 100 of 'x', which has 100 elements" in reply["error"], reply
    assert "kernel unmasked, test_ir_faults.py:" in reply["error"] and "program (1, 0, 0)" in reply["error"]
    negative = runner.launch(unmasked, (1,), [torch.zeros(64), torch.zeros(60), 1], {"B": 64})
    assert "out-of-bounds store: element 60 of 'o'" in negative["error"]


@triton.jit
def below(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B) - 3, 1.0)


def test_addresses_below_a_buffer_belong_to_it(runner):
    assert "element -3 of 'x'" in runner.launch(below, (1,), [torch.zeros(64)], {"B": 16})["error"]


@triton.jit
def racing(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(s, tl.load(s) + tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def overlapping(o, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o + p * (B // 2) + tl.arange(0, B), tl.zeros((B,), tl.float32) + p)


@triton.jit
def same_value(o, B: tl.constexpr):
    tl.store(o + tl.arange(0, B), tl.zeros((B,), tl.float32) + 3)


@triton.jit
def summing(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(s, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def last_adds(x, part, count, s, B: tl.constexpr, P: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    if tl.atomic_add(count, 1) == P - 1:
        tl.store(s, tl.sum(tl.load(part + tl.arange(0, P))))


def test_races(runner):
    x = torch.rand(256)
    for seed in range(3):
        reply = runner.launch(racing, (4,), [x, torch.zeros(1), 256], {"B": 64}, seed=seed)
        assert [kind for kind, _ in reply["findings"]] == ["race"] and "element 0 of 's'" in reply["findings"][0][1], (
            reply
        )
        reply = runner.launch(overlapping, (4,), [torch.zeros(64)], {"B": 16}, seed=seed)
        assert [kind for kind, _ in reply["findings"]] == ["race"], reply
        assert not runner.launch(same_value, (4,), [torch.zeros(64)], {"B": 16}, seed=seed)["findings"]
        total = torch.zeros(1)
        assert not runner.launch(summing, (4,), [x, total, 256], {"B": 64}, seed=seed)["findings"]
        torch.testing.assert_close(total[0], x.sum())
        # The last program reads what the others wrote, ordered by the counter.
        total, part, count = torch.zeros(1), torch.zeros(4), torch.zeros(1, dtype=torch.int32)
        reply = runner.launch(last_adds, (4,), [x, part, count, total], {"B": 64, "P": 4}, seed=seed)
        assert not reply["findings"], reply
        torch.testing.assert_close(total[0], x.sum())


def test_uninitialised_reads(runner):
    reply = runner.launch(racing, (1,), [torch.ones(64), torch.zeros(1), 64], {"B": 64}, uninitialised=("s",))
    assert reply["findings"][0][0] == "uninitialised_read" and "element 0 of 's'" in reply["findings"][0][1]
    assert not runner.launch(unmasked, (1,), [torch.ones(64), torch.zeros(64), 0], {"B": 64}, uninitialised=("o",))[
        "findings"
    ]


@triton.jit
def endless(o):
    while tl.atomic_add(o, 0) == 0:
        pass


@triton.jit
def endless_reads(o):
    while tl.load(o) == 0:
        pass


@triton.jit
def assembly(o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def asserting(o, n):
    tl.device_assert(n < 3, "n is small")
    tl.store(o, n)


def test_what_cannot_end_or_be_evaluated_says_so(runner):
    never = [torch.zeros(1, dtype=torch.int32)]
    in_vain = runner.launch(endless, (1,), never, {})["error"]
    assert "waits for what no program does: 1 under way, 0 not begun" in in_vain
    assert "loop wait for another program" in runner.launch(endless_reads, (1,), never, {})["error"]
    assert (
        "operation tt.elementwise_inline_asm is not evaluated"
        in runner.launch(assembly, (1,), [torch.zeros(16, dtype=torch.int32)], {"B": 16})["error"]
    )


def test_wrong_arguments_are_refused(runner):
    text, _ = triton_ir.lower(asserting, (torch.zeros(1), 2), {})
    reply, _ = runner.request(
        {"ir": text, "grid": [1, 1, 1], "buffers": [], "arguments": [{"integer": 1}, {"integer": 2}]}, []
    )
    assert "argument 'o' is no pointer" in reply["error"]
    reply, _ = runner.request({"ir": text, "grid": [1, 1, 1], "buffers": [], "arguments": []}, [])
    assert "takes 2 arguments, 0 are given" in reply["error"]


def test_ir_of_a_folder_is_the_same_without_its_locations(runner):
    text, _ = triton_ir.lower(unmasked, (torch.zeros(64), torch.zeros(64), 1), {"B": 64})
    assert "test_ir_faults.py" in text
    reply, _ = runner.request({"strip": text, "buffers": []}, [])
    assert (
        "loc(" not in reply["text"]
        and "#loc" not in reply["text"]
        and reply["text"].count("tt.store") == text.count("tt.store")
    )
