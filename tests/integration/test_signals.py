"""A server that is stopped while it starts: it ends at once, and so do the processes that it began."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))


def until(condition, what):
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return found


def children_of(pid):
    found = []
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found += map(int, tasks.read_text().split())
    return found


def is_there(pid):
    """A zombie whose parent has gone is not, whoever is to wait for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it is opened, or before it is read
        return False


@pytest.mark.parametrize("role", ["all", "compile"])
def test_an_evaluator_that_starts_hears_a_signal_at_once(role):
    process = subprocess.Popen(
        [BINARY, "serve", "evaluator", "--role", role, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    (python,) = until(lambda: children_of(process.pid), "the parent of its children")  # it imports torch for seconds
    process.send_signal(signal.SIGTERM)
    said, log = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM and said == b""
    assert b"evaluator stops before it was ready" in log
    until(lambda: not is_there(python), "it outlives the server")
