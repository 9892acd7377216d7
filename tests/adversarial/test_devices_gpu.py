"""Several real GPUs under one evaluator, by UUID: all of them judge, and one that loses its replayers loses no job.
Skipped where there are fewer than two."""

import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator_server import Evaluator, repeated_sines, sines_kernel


def uuids():
    if shutil.which("nvidia-smi") is None:
        return []
    told = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True)
    return told.stdout.split()


pytestmark = pytest.mark.skipif(len(uuids()) < 2, reason="fewer than two NVIDIA GPUs here")
CANDIDATES = 40


def replayers():
    """Processes that replay plans on a GPU; what they were forked from has children."""
    found, parents = [], set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents.add(int((folder / "stat").read_text().rpartition(")")[2].split()[1]))
            maps = (folder / "maps").read_text()
        except OSError:  # it has ended
            continue
        if "libtritonforge_replay" in maps and "libcuda.so" in maps:
            found.append(int(folder.name))
    return [process for process in found if process not in parents]


def test_all_of_them_judge_and_a_killed_replayer_costs_no_job():
    gpus = uuids()[:2]
    server = Evaluator("--mode", "plan", "--workers", "8", "--devices", ",".join(gpus))
    try:
        honest = sines_kernel(20)
        candidates = [(honest.replace("* 2", "* 3") if i % 4 == 0 else honest) + f"# {i}\n" for i in range(CANDIDATES)]
        with ThreadPoolExecutor(8) as clients:
            asked = [clients.submit(server.judge, source, repeated_sines(20)) for source in candidates]
            asked[CANDIDATES // 4].result()  # they are under way by now
            asked_for = time.monotonic() + 60
            while not (found := replayers()):
                assert time.monotonic() < asked_for, "no process replays on a GPU"
            os.kill(found[0], signal.SIGKILL)
            verdicts = [future.result() for future in asked]
        for i, verdict in enumerate(verdicts):
            kind = "mismatch" if i % 4 == 0 else ""
            assert (verdict["error_kind"], verdict["correct"]) == (kind, not kind), (i, verdict)
            assert verdict["device"] != "cpu" and (i % 4 == 0 or verdict["speedup"] > 0), verdict
        devices = server.get("/gpu_status")["devices"]
        assert [device["uuid"] for device in devices] == gpus
        assert all(device["jobs"] >= CANDIDATES // 8 for device in devices), devices
        assert all(device["healthy"] for device in devices), devices
        assert server.get("/fault_statistics")["evaluated"] == CANDIDATES
    finally:
        assert server.stop() == 0
