"""The warm Python parent is killed in the middle: the job is done again by a new one."""

import os
import signal
import subprocess

from conftest import HONEST


def test_zygote_killed(evaluator, judge):
    children = subprocess.run(
        ["pgrep", "-P", str(evaluator.process.pid)], capture_output=True, text=True
    ).stdout.split()
    assert children
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    verdict = judge(HONEST + "# after the kill")
    assert verdict["correct"], verdict
    assert evaluator.get("/health")["report"]["zygote_restarts"] >= 1
