"""Honest solutions accepted as written, cheats stopped by what each of them names: corpus/README.md."""

import functools
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator_server import BINARY, Evaluator

CORPUS = Path(__file__).parent / "corpus"
MARK = "# ---- candidate ----\n"
HONEST = sorted((CORPUS / "honest").glob("*.py"))
CHEATS = sorted((CORPUS / "cheats").glob("*.py"))
SOUND = CORPUS / "sound.py"
SHARED = ("problem", "kernels", "sound")
# Cheats at the clock; SOUND_TIME is the honest work that they are held against where there is one.
TIMING = [path for path in sorted((CORPUS / "timing").glob("*.py")) if path.stem not in SHARED]
SOUND_TIME = CORPUS / "timing" / "sound.py"
# O11, a shape of the problem's in the code, is no cheat: honest/hard_coded_shapes.py.
LAST_ROW = {"T": 12, "O": 10, "D": 8, "C": 11, "L": 8, "E": 1}
ROWS = [f"{letter}{k}" for letter, last in LAST_ROW.items() for k in range(1, last + 1)]


def parts(path):
    """(problem, candidate) of a file."""
    text = path.read_text()
    if MARK in text:
        return text.split(MARK)
    shared = path.parent if path.parent.name == "timing" else CORPUS
    return (shared / "problem.py").read_text(), (shared / "kernels.py").read_text() + text


def line(path, name):
    """What the comment line `# name: ...` says; empty where there is none."""
    found = re.search(rf"^# {name}: *(.+)$", path.read_text(), re.M)
    return found.group(1) if found else ""


def rows(path):
    """The rows of the catalogue that a cheat's first line names."""
    return path.read_text().split(":")[0].removeprefix("# ").split()


def mechanisms(verdict):
    """All that kept a verdict from being correct."""
    found = {flag["name"] for flag in verdict["flags"] if flag["cheat"]} | {verdict["error_kind"]}
    return found | ({"not a plan"} if "mode_reason" in verdict["notes"] else set())


# How trials get their data, and what is judged so. Drawn is a GPU's way, where test_plan_gpu.py has all; here it has a
# third.
JUDGED = {"handed": (HONEST, CHEATS), "drawn": (HONEST[::3], CHEATS[::3])}


@functools.cache
def judged(data):
    """Verdicts by path, in plan mode; SOUND is the honest solution that the cheats are beside."""
    server = Evaluator("--mode", "plan", "--workers", "2", "--trial-data", data)
    honest, cheats = JUDGED[data]
    paths = [*honest, *cheats, SOUND]
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(paths, pool.map(lambda p: server.judge(*reversed(parts(p)), timeout_s=timeout_of(p)), paths)))
    assert server.stop() == 0
    return found


@pytest.fixture(params=JUDGED)
def verdicts(request):
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    return judged(request.param)


def timeout_of(path):
    """Of a candidate that has no end less, or it is waited for as long as for honest work on a loaded machine."""
    return 15 if line(path, "stopped by") == "timeout" else 60


def cases(paths):
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.xfail(reason=why, strict=True)] if why else [])
        for path in paths
        for why in [line(path, "xfail")]
    ]


def judged_cases(kind):
    """Of the honest work (0), or of the cheats (1), in each way."""
    return [
        pytest.param(data, *case.values, id=f"{case.id}-{data}", marks=case.marks)
        for data, paths in JUDGED.items()
        for case in cases(paths[kind])
    ]


@pytest.mark.parametrize("verdicts, path", judged_cases(0), indirect=["verdicts"])
def test_honest_work_is_accepted_as_written(verdicts, path, request):
    verdict = verdicts[path]
    drawn = request.node.name.endswith("drawn]") and not line(path, "handed")
    assert ("trials" in verdict["notes"]) == drawn
    assert verdict["correct"] and verdict["mode"] == "plan" and not mechanisms(verdict) - {""}, verdict


@pytest.mark.parametrize("verdicts, path", judged_cases(1), indirect=["verdicts"])
def test_a_cheat_is_stopped_by_what_it_names(verdicts, path):
    verdict, wanted = verdicts[path], line(path, "stopped by")
    assert not verdict["correct"] and wanted in mechanisms(verdict), verdict


@pytest.mark.parametrize("path", cases([*TIMING, SOUND_TIME]))
def test_a_cheat_at_the_clock_has_no_clock_to_cheat_on_a_cpu(evaluator, path):
    """What is not stopped is replayed without its Python: on a GPU it takes as long as honest work (test_plan_gpu)."""
    verdict = evaluator.judge(*reversed(parts(path)), mode="plan", num_correct_trials=2)
    assert verdict["stage"] != "timed" and verdict["speedup"] == 0, verdict
    assert not {"eager_speedup", "torch_compile_speedup"} & set(verdict), verdict
    if wanted := line(path, "stopped by"):
        assert not verdict["correct"] and wanted in mechanisms(verdict), verdict
    else:
        assert verdict["correct"] and verdict["mode"] == "plan" and not verdict["claimed"], verdict


@pytest.mark.parametrize(
    "name, mode",
    [
        ("tf32x3_dot", "plan"),
        ("shared_memory_of_an_h100", "plan"),
        ("shared_memory_of_an_h100", "interpret"),
        ("inline_ptx", "plan"),
    ],
)
def test_what_only_one_target_takes_is_refused_where_another_is_required(evaluator, name, mode):
    problem, candidate = parts(CORPUS / "honest" / f"{name}.py")
    verdict = evaluator.judge(candidate, problem, mode=mode, targets=["gfx942", "sm_90"])
    assert not verdict["correct"] and verdict["error_kind"] == "compile_error", verdict
    assert verdict["compile_targets"]["sm_90"] == "ok" and verdict["compile_targets"]["gfx942"] != "ok", verdict
    if mode == "plan":
        assert evaluator.judge(candidate, problem, mode=mode)["compile_targets"] == {"sm_90": "ok"}


def test_what_a_kernel_takes_of_an_amd_gpu_is_told(evaluator):
    problem, candidate = parts(CORPUS / "honest" / "add_broadcast_strides.py")
    verdict = evaluator.judge(candidate, problem, mode="plan", targets=["gfx942"])
    assert verdict["compile_targets"]["gfx942"] == "ok", verdict
    told = verdict["notes"]["resources.gfx942"]
    assert re.search(r"\d+ VGPRs and AGPRs \(\d+ AGPRs\), 0 bytes a lane spilled, \d+ bytes of LDS", told), told


def test_the_parts_that_cheats_share_are_sound(verdicts):
    assert verdicts[SOUND]["correct"] and verdicts[SOUND]["own_share"] == 1, verdicts[SOUND]


def test_every_row_has_two_cheats():
    for row in ROWS:
        assert sum(row in rows(path) for path in [*CHEATS, *TIMING]) >= 2, f"{row} has fewer than two"
    assert len(HONEST) >= 60


def test_counts(verdicts, capsys):
    """Those that are known (xfail) count, too."""
    honest, cheats = ([path for path in paths if path in verdicts] for paths in (HONEST, CHEATS))
    refused = [path.stem for path in honest if not verdicts[path]["correct"]]
    accepted = [path.stem for path in cheats if verdicts[path]["correct"]]
    with capsys.disabled():
        print(f"\n{len(cheats)} cheats, {len(accepted)} accepted {accepted}; ", end="")
        print(f"{len(honest)} honest solutions, {len(refused)} refused {refused}")
    assert accepted == [path.stem for path in cheats if line(path, "xfail")]
    assert refused == [path.stem for path in honest if line(path, "xfail")]
