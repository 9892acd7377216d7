"""Several real GPUs under one evaluator, by UUID: all of them judge, and one that loses its replayers loses no job.
Skipped where there are fewer than two."""

import shutil
import signal
import subprocess
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


def replayers(of):
    """The processes that replay plans, of which one holds a GPU at a time."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            maps = (status.parent / "maps").read_text()
        except OSError:  # it has ended
            continue
        if "libtritonforge_replay" in maps and "libcuda.so" in maps and int(fields["Pid"]) != of.pid:
            found.append(int(fields["Pid"]))
    return found


def test_all_of_them_judge_and_a_killed_replayer_costs_no_job():
    gpus = uuids()[:2]
    server = Evaluator("--mode", "plan", "--workers", "8", "--devices", ",".join(gpus))
    try:
        honest = sines_kernel(20)
        candidates = [(honest.replace("* 2", "* 3") if i % 4 == 0 else honest) + f"# {i}\n" for i in range(CANDIDATES)]
        with ThreadPoolExecutor(8) as clients:
            asked = [clients.submit(server.judge, source, repeated_sines(20)) for source in candidates]
            asked[CANDIDATES // 4].result()  # they are under way by now
            killed = replayers(server.process)
            assert killed, "no process replays on a GPU"
            for process in killed[:1]:
                subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(process)], check=False)
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
