"""Candidates and clients that attack the trusted side itself: depth, bytes, counts, time. It must outlive each (`judge`
asks it for an honest verdict afterwards), and what it answers must stay small."""

import http.client
import json

from conftest import HONEST, flags

# Frames of the candidate's own, on whichever descriptor is the result channel.
SEND = """
import json, os, struct
def send(text, payload=b""):
    data = struct.pack("<IQ", len(text), len(payload)) + text + payload
    for fd in range(3, 64):
        view = memoryview(data)
        try:
            while len(view):
                view = view[os.write(fd, view):]
            return
        except OSError:
            pass
"""


def test_a_header_of_a_million_levels(judge):
    start, deep = b'{"kernel": "k", "options": {"a": ', "b'[' * 1_000_000 + b']' * 1_000_000 + b'}}'"
    verdict = judge(SEND + f"send({start!r} + {deep})\n" + HONEST)
    assert not verdict["correct"] and "protocol_forgery" in flags(verdict), verdict


def test_kernels_without_end(judge):
    verdict = judge(
        SEND
        + """
options = json.dumps({"kernel": "k", "target": "sm_90", "options": {str(i): i for i in range(1000)}}).encode()
while True:
    send(options, b"module {}")
"""
        + HONEST
    )
    assert not verdict["correct"] and verdict["error_kind"] == "compile_error", verdict


def test_bytes_without_end(judge):
    verdict = judge(
        SEND
        + """
import struct
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("<IQ", 2, 32 << 20) + b"{}")
        while True:
            os.write(fd, b"x")
    except OSError:
        pass
"""
        + HONEST,
        timeout_s=15,
    )
    assert not verdict["correct"] and verdict["error_kind"] == "timeout", verdict


def test_frames_of_hundreds_of_megabytes(judge):
    verdict = judge(SEND + 'send(b\'{"kernel": "k", "options": {}}\', bytes(200 << 20))\n' + HONEST)
    assert not verdict["correct"] and "protocol_forgery" in flags(verdict), verdict


def test_options_of_a_megabyte(judge):
    start, end = b'{"kernel": "k", "options": {"a": "', b'"}}'
    verdict = judge(SEND + f"send({start!r} + b'x' * 1_000_000 + {end!r})\n" + HONEST)
    assert not verdict["correct"] and "protocol_forgery" in flags(verdict), verdict


def test_claims_of_megabytes_are_cut(judge):
    verdict = judge(
        HONEST
        + """
worker = torch.sys.modules["tritonforge_worker.candidate"]
worker.Candidate.tampered = lambda self: ["x" * 100] * 20000
"""
    )
    assert not verdict["correct"] and "monkeypatch" in flags(verdict), verdict
    assert len(json.dumps(verdict)) < 20000


def test_a_body_of_a_million_levels(evaluator, judge):
    connection = http.client.HTTPConnection("127.0.0.1", evaluator.port, timeout=60)
    connection.request("POST", "/v2/evaluations", b"[" * 1_000_000 + b"]" * 1_000_000)
    reply = connection.getresponse()
    assert reply.status == 400 and b"nested deeper than 128 levels" in reply.read()


def test_a_body_of_hundreds_of_megabytes_is_not_awaited(evaluator, judge):
    connection = http.client.HTTPConnection("127.0.0.1", evaluator.port, timeout=60)
    connection.putrequest("POST", "/v2/evaluations")
    connection.putheader("content-length", str(200 << 20))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_a_report_of_sixty_thousand_kernels_is_cut(judge):
    """To take out of a list what is there twice is quadratic."""
    verdict = judge(
        HONEST
        + """
import gc
names = ["x" * 1000] + [f"a_kernel_that_nobody_launched_{i}" for i in range(60_000)]
for launches in gc.get_objects():
    if type(launches).__name__ == "Launches":
        report = launches.report()
        launches.report = lambda: report | {"launches": len(names), "kernels": names}
"""
    )
    assert verdict["error_kind"] == "" and "a_kernel_that_nobody_launched_7" in verdict["kernels"], verdict
    assert len(verdict["kernels"]) <= 256 and max(map(len, verdict["kernels"])) < 210, verdict["kernels"]
