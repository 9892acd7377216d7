"""The evaluator's worker by itself, where a server on a CPU cannot show it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(ROOT / "worker"), str(ROOT / "tests/adversarial")]
import evaluator_server

CODE = """
import torch
LIMITS_BEFORE_THE_CODE = list(torch.cuda.limits)
class ModelNew:
    def __init__(self):
        assert LIMITS_BEFORE_THE_CODE == [0.25], LIMITS_BEFORE_THE_CODE
    def __call__(self, x):
        return x
"""


class Channel:
    def __init__(self):
        self.sent = []

    def send(self, header, payload=()):
        self.sent.append(header)


def load(tmp_path, device_memory):
    from tritonforge_worker.candidate import Candidate

    channel = Channel()
    candidate = Candidate(channel, {"folder": str(tmp_path), "gpu": True, "device_memory": device_memory})
    request = {"source": CODE, "sizes": {}, "tensors": [], "init": {"list": []}, "state": [], "seed": 1, "targets": []}
    candidate.load(request, memoryview(b""))
    return channel.sent[-1]


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(torch.cuda, "limits", [], raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", torch.cuda.limits.append)
    return torch.cuda.limits


def test_a_candidate_has_its_limit_of_device_memory_before_its_code_runs(tmp_path, limits):
    assert load(tmp_path, 0.25) == {"stage": "built", "own_weights": []}
    assert limits == [0.25]


def test_without_a_limit_the_device_is_left_as_it_is(tmp_path, limits):
    assert "AssertionError: []" in load(tmp_path, 0)["failed"]["text"]


def test_the_parent_keeps_compiled_modules_for_the_next_start(tmp_path):
    """Half of an import's time is the compilation of its sources: torch's, Triton's and our own."""
    shutil.copytree(ROOT / "worker", tmp_path / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    candidate = tmp_path / "candidate.py"
    candidate.write_text(evaluator_server.HONEST)
    problem = tmp_path / "problem.py"
    problem.write_text(evaluator_server.PROBLEM)
    said = subprocess.run(
        [evaluator_server.BINARY, "evaluate", "--problem", problem, "--candidate", candidate],
        env=dict(os.environ, TRITONFORGE_ROOT=str(tmp_path), PYTHONDONTWRITEBYTECODE="1"),  # of other programs
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said
    kept = {file.name.split(".")[0] for file in (tmp_path / "worker").rglob("*.pyc")}
    assert {"candidate", "reference", "interpreter"} & kept, kept


def test_where_torch_is_a_rocm_build_no_process_dumps_and_each_sees_its_own_gpu():
    from tritonforge_worker import zygote

    inherited = {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "GPU-1,GPU-2", "SECRET": "hunter2"}
    granted = zygote.environment({"folder": "/job", "gpu": True, "gpu_uuid": "GPU-2"}, inherited, rocm=True)
    assert granted["ROCR_VISIBLE_DEVICES"] == "GPU-2" and "CUDA_VISIBLE_DEVICES" not in granted
    for name in ("HSA_ENABLE_COREDUMP", "HIP_ENABLE_COREDUMP", "AMD_LOG_LEVEL"):
        assert granted[name] == "0"
    assert granted["GPU_MAX_HW_QUEUES"] == "1" and "SECRET" not in granted
    denied = zygote.environment({"folder": "/job", "gpu": False, "gpu_uuid": ""}, inherited, rocm=True)
    assert denied["ROCR_VISIBLE_DEVICES"] == ""
    on_nvidia = zygote.environment({"folder": "/job", "gpu": True, "gpu_uuid": ""}, inherited, rocm=False)
    assert on_nvidia["CUDA_VISIBLE_DEVICES"] == "0" and "AMD_LOG_LEVEL" not in on_nvidia


def test_a_rocm_child_gets_the_variables_that_the_document_lists():
    """docs/amd.md: what its table says is set by us is set, and nothing else of that kind is."""
    from tritonforge_worker import zygote

    rows = [line.split("|")[1:-1] for line in (ROOT / "docs/amd.md").read_text().splitlines() if line.startswith("| `")]
    listed = {}
    for names, values, _, ours in rows:
        if ours.strip().startswith("yes"):
            listed |= dict(zip(re.findall("`([A-Z_]+)`", names), values.replace(" ", "").split(",")))
    visible = listed.pop("ROCR_VISIBLE_DEVICES")
    assert visible == "theGPU'sUUID"
    assert listed == zygote.ROCM
    child = zygote.environment({"folder": "/job", "gpu": True, "gpu_uuid": "GPU-7"}, {}, rocm=True)
    assert {name: child[name] for name in listed} == listed
    assert child["ROCR_VISIBLE_DEVICES"] == "GPU-7"
