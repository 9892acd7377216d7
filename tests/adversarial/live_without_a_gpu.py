"""Runs candidates under live mode's own timer on a device that is pretended: each kernel takes a millisecond of it, and
so does each read that flushes the L2. Prints what the timer says of each, in a line of JSON.

    python live_without_a_gpu.py CANDIDATE.py ...
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import types

import torch

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "worker"))
TRIALS, CALLS, SIZE = 10, 5, 1000
now = {"current": 0.0, "side": 0.0}  # ms, of the current stream and of all others
stream = ["current"]


def busy(ms):
    now[stream[0]] += ms


class Event:
    def __init__(self, **how):
        self.at = 0.0

    def record(self):
        self.at = now["current"]

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at + 0.001


class Stream:
    def __init__(self, **how):
        pass


@contextlib.contextmanager
def on(other):
    stream[0] = "side"
    yield
    stream[0] = "current"


def on_the_host(factory):
    def made(*args, device=None, **how):
        return factory(*args, **how)

    return made


def pretend():
    """Before the worker keeps what it times with."""
    torch.cuda.Event, torch.cuda.Stream, torch.cuda.stream, torch.cuda.synchronize = Event, Stream, on, lambda: None
    torch.cuda._sleep = lambda cycles: busy(1.0)
    torch.zeros, torch.empty = on_the_host(torch.zeros), on_the_host(torch.empty)


class Kernel:
    """In the place of the candidate's own."""

    def __getitem__(self, grid):
        return self.launch

    def launch(self, x, y, n, B):
        busy(1.0)
        with torch._C.DisableTorchFunction():
            y.copy_(torch.sin(x) * 2)


class Channel:
    def send(self, header, payload=()):
        self.header, self.payload = header, b"".join(bytes(part) for part in payload)


def flushed(timer, live):
    """Bytes that its flush reads; the marks are there to see whether it was made at all."""
    memory, total = timer.flush
    total.fill_(-1)
    live.flush(memory, total)
    return 0 if total == -1 else memory.untyped_storage().nbytes()


def timed(source):
    from tritonforge_worker import candidate, live
    from tritonforge_worker.modules import run_source

    assert candidate  # a cheat looks for it
    with tempfile.TemporaryDirectory() as folder, live.Around():
        module = run_source(source, "candidate", folder)
        module.sines = Kernel()
        role = types.SimpleNamespace(model=module.ModelNew(), channel=Channel())
    timer = live.Timer(role)
    timer.pool = [(torch.randn(SIZE),), (torch.randn(SIZE),)]
    for _ in range(TRIALS):
        with torch.no_grad(), live.Around(poison=True):
            role.model(*timer.pool[0])
    order = [k % 2 for k in range(CALLS)]
    timer.time({"op": "time", "order": order, "nonce": "n"}, b"")
    times = role.channel.header["times"]
    timer.fetch({"op": "fetch", "index": CALLS - 1}, b"")
    with torch._C.DisableTorchFunction():
        expected = torch.sin(timer.pool[order[-1]][0]) * 2
        right = role.channel.payload == expected.numpy().tobytes()
    return {"ms": sorted(times)[CALLS // 2], "right": right, "flushed": flushed(timer, live), "all": live.FLUSH_BYTES}


def in_a_child(path):
    """What one patches is gone with its process."""
    if (child := os.fork()) == 0:
        said = timed(pathlib.Path(path).read_text())
        print(json.dumps(said | {"path": path}), flush=True)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    pretend()
    from tritonforge_worker import live

    assert live.FLUSHES > 0
    live.FLUSHES = 1  # on a host it takes its time
    sys.exit(max(map(in_a_child, sys.argv[1:])))
