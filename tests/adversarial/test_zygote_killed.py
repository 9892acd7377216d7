"""The warm Python parent is killed in the middle: the job is done again by a new one, and charged to no candidate."""

import os
import signal
import subprocess

from conftest import HONEST


def test_zygote_killed(evaluator, judge):
    judge(HONEST)  # a compiler waits for the next kernel from here on
    children = subprocess.run(
        ["pgrep", "-P", str(evaluator.process.pid)], capture_output=True, text=True
    ).stdout.split()
    assert children
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    verdict = judge(HONEST.replace("tl.maximum(a, 0.0) * 2", "tl.maximum(a, 0.0) + tl.maximum(a, 0.0)"))
    assert verdict["correct"], verdict
    assert evaluator.get("/health")["report"]["zygote_restarts"] >= 1
