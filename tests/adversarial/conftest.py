"""One real evaluator server for all attacks, in the mode that runs candidates in their own process (test_plan_mode.py
has the other); each test sends one hack, judges the verdict, and then asks whether the
evaluator still gives an honest kernel its due."""

import os
import time

import pytest

from evaluator_server import BINARY, HEADER, HONEST, PROBLEM, Evaluator  # noqa: F401


@pytest.fixture(scope="session")
def evaluator():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "interpret")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def plan():
    """A server in plan mode."""
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "plan")
    yield server
    assert server.stop() == 0


@pytest.fixture
def judge(evaluator):
    """judge(forward or whole source) -> verdict; afterwards the evaluator must be well."""
    yield evaluator.judge
    assert evaluator.process.poll() is None
    # A comment makes it a new candidate: the verdict cache must not answer for a broken evaluator.
    after = evaluator.judge(HONEST + f"# {time.time_ns()}\n")
    assert after["correct"] and not after["cheated"], after


def flags(verdict):
    return {flag["name"] for flag in verdict["flags"] if flag["cheat"]}
