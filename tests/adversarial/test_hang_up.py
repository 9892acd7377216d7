"""Clients that hang up free their places: the queue, the worker and the child of each. Nothing here is timed; without
it the last request would wait for 64 candidates of five minutes each."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.error

import pytest

from evaluator_server import BINARY, HEADER, HONEST, PROBLEM, Evaluator

CLIENTS = 64
SLEEPS = (
    HEADER
    + """
class ModelNew(nn.Module):
    def forward(self, x):
        import time
        time.sleep(600)
        return launch(x)
"""
)
ENDLESS_KERNEL = HONEST.replace(
    "    tl.store(", "    for _ in range(1 << 40):\n        a = tl.maximum(a, 0.0)\n    tl.store("
)
SLOW = [(SLEEPS, "plan"), (SLEEPS, "interpret"), (ENDLESS_KERNEL, "plan")]


@pytest.fixture(scope="module")
def server():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "plan", "--workers", "2", candidate_timeout=300)
    yield server
    assert server.stop() == 0


def wait_for(condition, what):
    deadline = time.monotonic() + 300  # only bounds a failure
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def report(server):
    return server.get("/health")["report"]


def ask_and_keep(server, candidate, mode):
    body = json.dumps(
        {"problem": {"id": "p", "source": PROBLEM}, "candidate": candidate, "mode": mode, "timeout_s": 300}
    )
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(
        f"POST /v2/evaluations HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    )
    return client


@pytest.mark.parametrize("slow, mode", SLOW)
def test_a_client_that_hangs_up_frees_its_worker(server, slow, mode):
    before = report(server)["abandoned"]
    client = ask_and_keep(server, slow + f"# {time.time_ns()}\n", mode)
    wait_for(lambda: report(server)["busy"] == 1, "the candidate never began")
    client.close()
    wait_for(lambda: report(server)["busy"] == 0, "its worker is still busy")
    assert report(server)["abandoned"] == before + 1


def test_a_new_request_is_served_though_64_were_before_it(server):
    before = report(server)
    clients = [ask_and_keep(server, SLOW[i % 3][0] + f"# {i}\n", SLOW[i % 3][1]) for i in range(CLIENTS)]
    # All of the server's threads are held for minutes by now, workers + 2: /health, which says so, needs none of them.
    wait_for(lambda: report(server)["busy"] == 2, "the pool never filled")
    wait_for(lambda: report(server)["waiting"] == 2, "nobody waited for it")
    for client in clients:
        client.close()
    verdict = server.judge(HONEST)
    assert verdict["correct"], verdict
    wait_for(lambda: report(server)["abandoned"] - before["abandoned"] == CLIENTS, "not all places were given back")
    after = report(server)
    assert (after["busy"], after["waiting"]) == (0, 0)
    assert after["evaluated"] - before["evaluated"] == 1  # nobody was judged for a client that had gone


@pytest.mark.parametrize("path", ["/v2/evaluations", "/v2/problems"])
def test_a_problem_that_hangs_does_not_keep_the_server_from_its_end(path):
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "plan", "--workers", "1")
    hangs = PROBLEM.replace("def get_inputs():", "def get_inputs():\n    while True:\n        pass")
    assert hangs != PROBLEM
    body = {"problem": {"source": hangs}, "timeout_s": 3600} | ({"candidate": HONEST} if "eval" in path else {})

    def ask():
        with contextlib.suppress(urllib.error.URLError, http.client.HTTPException, ConnectionError):  # it is cut off
            server.post(path, body)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_for(lambda: report(server)["busy"] == 1, "its worker is busy")
    assert server.stop() == 0  # within a minute
    asking.join()
