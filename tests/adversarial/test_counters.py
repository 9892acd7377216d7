"""--profile: a candidate that is right is replayed once more under ncu, here one that stands in for NVIDIA's."""

import os
import shutil
import subprocess

import pytest

from evaluator_server import BINARY, HONEST, PROBLEM, Evaluator
from test_hang_up import ask_and_keep, report, wait_for

NCU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ncu")


@pytest.fixture
def profiling():
    servers = []

    def start(ncu):
        servers.append(Evaluator("--mode", "plan", "--profile", "--ncu", str(ncu)))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_the_counters_of_its_kernels_are_in_the_verdict(profiling):
    verdict = profiling(NCU).judge(HONEST)
    assert verdict["correct"], verdict
    # Percentages are means by time: (10 * 10 + 30 * 30) / 40.
    assert verdict["counters"] == [
        {
            "name": "relu_kernel",
            "launches": 2,
            "dram_bytes": 2001.0,
            "sm_percent": 25.0,
            "occupancy_percent": 25.0,
            "l2_hit_percent": 25.0,
        }
    ]


def test_what_is_wrong_is_not_profiled(profiling):
    verdict = profiling(NCU).judge(HONEST.replace("* 2", "* 3"))
    assert not verdict["correct"]
    assert "counters" not in verdict and "counters" not in verdict["notes"]


def test_a_user_who_may_not_read_counters_is_told_and_judged_all_the_same(profiling, tmp_path):
    verdict = profiling(shutil.copy(NCU, tmp_path / "ncu_refused")).judge(HONEST)
    assert verdict["correct"], verdict
    assert "counters" not in verdict
    assert "ERR_NVGPUCTRPERM" in verdict["notes"]["counters"]


def test_a_client_that_hangs_up_ends_ncu_and_all_that_it_began(profiling, tmp_path):
    server = profiling(shutil.copy(NCU, tmp_path / "ncu_hangs"))
    pids = tmp_path / "pids"
    with ask_and_keep(server, HONEST, "plan"):
        wait_for(pids.exists, "ncu was not started")
    wait_for(
        lambda: not any(is_running(pid) for pid in pids.read_text().split()), "a process of ncu's outlived its client"
    )
    wait_for(lambda: report(server)["abandoned"] == 1, "the evaluation was not abandoned")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it is opened, or before it is read
        return False


@pytest.mark.parametrize(
    "flags, named",
    [
        (["--ncu", "/nowhere/ncu"], "/nowhere/ncu"),
        (["--ncu", NCU, "--sandbox", "strict"], "outside of the sandbox"),
        (["--ncu", NCU, "--mode", "interpret"], "'profile' is for mode plan"),
    ],
)
def test_what_cannot_be_profiled_is_refused_at_once(flags, named, tmp_path):
    for name, source in (("problem.py", PROBLEM), ("candidate.py", HONEST)):
        (tmp_path / name).write_text(source)
    run = subprocess.run(
        [BINARY, "evaluate", "--problem", "problem.py", "--candidate", "candidate.py", "--profile", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode != 0
    (line,) = run.stderr.strip().splitlines()
    assert named in line
