"""The warm Python parent is killed in the middle: the job is done again by a new one, and charged to no candidate."""

import contextlib
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from conftest import HEADER, HONEST


def pids(*which):
    said = subprocess.run(["pgrep", *which], capture_output=True, text=True).stdout
    return set(map(int, said.split()))


def kill(found):
    assert found
    for pid in found:
        with contextlib.suppress(ProcessLookupError):  # it went with its parent
            os.kill(pid, signal.SIGKILL)


def parent_of(evaluator):
    return pids("-P", str(evaluator.process.pid))


def test_zygote_killed(evaluator, judge):
    judge(HONEST)  # a compiler waits for the next kernel from here on
    kill(parent_of(evaluator))
    verdict = judge(HONEST.replace("tl.maximum(a, 0.0) * 2", "tl.maximum(a, 0.0) + tl.maximum(a, 0.0)"))
    assert verdict["correct"], verdict
    assert evaluator.get("/health")["report"]["zygote_restarts"] >= 1


def test_a_death_of_the_parent_is_none_of_its_candidates(evaluator, judge):
    """Three times each may be taken from outside."""
    name = f"here-{evaluator.port}"
    sleeps = (
        HEADER
        + f"""
import ctypes, time
ctypes.CDLL(None).prctl(15, b"{name}")  # PR_SET_NAME
time.sleep(600)
"""
    )
    killed = set()
    with ThreadPoolExecutor(1) as client:
        verdict = client.submit(judge, sleeps)
        for victim in ("candidate", "candidate", "parent", "candidate"):
            deadline = time.monotonic() + 300  # only bounds a failure
            while not (found := pids("-x", name) - killed):
                assert time.monotonic() < deadline and not verdict.done(), victim
                time.sleep(0.02)
            killed |= found
            kill(found if victim == "candidate" else parent_of(evaluator))
    assert verdict.result()["error_kind"] == "crashed", verdict.result()
