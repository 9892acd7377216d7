"""An emulated AMD device that dies (SIGSEGV, SIGABRT) or hangs under three jobs of ten: every evaluation gets the
verdict that it has coming, and the server lives. What is judged is real: recorded, compiled for gfx942, replayed."""

import concurrent.futures
import os

import pytest

from evaluator_server import ADDITION, BINARY, HONEST, PROBLEM, Evaluator, prompts_examples
from test_corpus import CORPUS, parts

EVALUATIONS = int(os.environ.get("TRITONFORGE_DEVICE_EVALUATIONS", "500"))
WRONG = HONEST.replace("tl.maximum(a, 0.0) * 2", "tl.maximum(a, 0.0) * 3")


@pytest.fixture(scope="module")
def server():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    flags = ["--devices", "emulated-gfx942:0,emulated-gfx942:1,emulated-gfx942:2", "--emulated-faults", "0.3"]
    server = Evaluator("--mode", "plan", "--workers", "3", *flags, candidate_timeout=5)
    yield server
    assert server.stop() == 0


def test_no_job_and_no_server_is_lost(server):
    candidates = [(WRONG if i % 4 == 0 else HONEST) + f"# {i}\n" for i in range(EVALUATIONS)]
    with concurrent.futures.ThreadPoolExecutor(3) as clients:
        verdicts = list(clients.map(server.judge, candidates))
    for i, verdict in enumerate(verdicts):
        kind = "mismatch" if i % 4 == 0 else ""
        assert (verdict["error_kind"], verdict["correct"]) == (kind, not kind), (i, verdict)
        assert verdict["mode"] == "plan" and verdict["device"] == "emulated gfx942"
        assert verdict["compile_targets"].get("gfx942") == "ok", verdict
    devices = server.get("/gpu_status")["devices"]
    faults = server.get("/fault_statistics")
    assert faults["evaluated"] == EVALUATIONS
    # At 0.3 a job, 500 have 214 losses with a deviation of 17.
    assert faults["total_faults"] == sum(d["fault_count"] for d in devices) >= 0.25 * EVALUATIONS
    assert sum(d["jobs"] for d in devices) == EVALUATIONS + faults["total_faults"]
    # Jobs that are lost at once share a probe; a device has three at most.
    assert sum(d["probes"] for d in devices) >= faults["total_faults"] / 3
    assert faults["per_device_faults"] == {d["uuid"]: d["fault_count"] for d in devices}


def test_what_its_target_does_not_take_is_refused(server):
    problem, candidate = parts(CORPUS / "honest" / "shared_memory_of_an_h100.py")
    verdict = server.judge(candidate, problem)
    assert verdict["error_kind"] == "compile_error", verdict
    assert verdict["compile_targets"]["sm_90"] == "ok" != verdict["compile_targets"]["gfx942"], verdict


def test_machine_code_that_dies_is_no_fault_of_the_device(server):
    """OpenCL runs in a process of its own: whatever becomes of that, it is a verdict, and no job is run again."""
    if "opencl" not in server.get("/backend_info")["backends"]:
        pytest.skip("PoCL is not here; requirements/install --languages installs it")
    honest, before = prompts_examples()["OpenCl"], jobs(server)
    dying = honest.replace("if (i < n)", "*(__global float*)(i + 8) = 1; if (i < n)")
    assert dying != honest
    assert server.judge(honest, ADDITION, backend="opencl")["correct"]
    verdict = server.judge(dying, ADDITION, backend="opencl")
    assert verdict["error_kind"] == "crashed" and verdict["mode"] == "plan", verdict
    assert jobs(server) == before + 2


def jobs(server):
    return sum(device["jobs"] for device in server.get("/gpu_status")["devices"])


def test_a_device_that_always_fails_is_quarantined_and_says_so():
    server = Evaluator(
        *["--devices", "emulated-gfx942:0", "--emulated-faults", "1", "--workers", "1"], candidate_timeout=8
    )
    try:
        with pytest.raises(Exception, match="503"):
            server.post(
                "/v2/evaluations",
                {"problem": {"source": PROBLEM}, "candidate": HONEST},
                timeout_s=20,
            )
        (device,) = server.get("/gpu_status")["devices"]
        assert device["state"] == "quarantined" and not device["healthy"], device
        assert device["last_fault"].startswith("the probe's process "), device
        assert server.post("/reset_gpu/0", {})["status"] == "ok"
        assert server.get("/gpu_status")["devices"][0]["state"] == "suspect"
    finally:
        assert server.stop() == 0
