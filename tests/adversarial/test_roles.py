"""The evaluator as several machines: a front, two servers that compile, two that replay. kill -9 of one of each in the
middle costs no client anything; the front says which peers are up, and takes them back when they return."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error

import pytest

from evaluator_server import ADDITION, BINARY, HONEST, Evaluator, prompts_examples

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import schemas  # beside the folders of tests
from filters import filtered

WRONG = HONEST.replace("tl.maximum(a, 0.0) * 2", "tl.maximum(a, 0.0) * 3")
REFUSED = HONEST.replace("tl.arange(0, B)", "tl.arange(0, B + 1)")
KINDS = [(HONEST, ""), (WRONG, "mismatch"), (REFUSED, "compile_error")]


def wait_for(condition, what):
    deadline = time.monotonic() + 300  # only bounds a failure
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def states(front, kind):
    """url -> state, of red fronts too."""
    try:
        report = front.get("/health")["report"]
    except urllib.error.HTTPError as error:
        report = json.load(error)["report"]
    return {peer["url"]: peer["state"] for peer in report[kind]}


@pytest.fixture(scope="module")
def machines():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    started = []

    def start(*flags):
        started.append(Evaluator.starting(*flags))
        return started[-1]

    compile_servers = [start("--role", "compile") for _ in range(2)]
    peers = ",".join(one.url for one in compile_servers)
    perf_servers = [start("--role", "perf", "--compile-servers", peers, "--workers", "2") for _ in range(2)]
    for one in started:
        one.wait_ready()
    front = start(
        *["--role", "front", "--compile-servers", peers, "--perf-servers", ",".join(p.url for p in perf_servers)],
        *["--peer-health-interval", "0.2"],
    )
    front.wait_ready()
    wait_for(lambda: set(states(front, "perf_servers").values()) == {"green"}, "a perf server is not up")
    wait_for(lambda: set(states(front, "compile_servers").values()) == {"green"}, "a compile server is not up")
    for perf in perf_servers:
        wait_for(lambda: set(states(perf, "compile_servers").values()) == {"green"}, "it does not see them")  # noqa: B023
    yield front, compile_servers, perf_servers
    for one in started:
        one.process.kill()
        one.process.wait(60)


def judge(front, i, salt):
    candidate, kind = KINDS[i % len(KINDS)]
    # Another constant makes another kernel, so that every one is compiled.
    verdict = front.judge(candidate.replace("tl.store(", f"a = tl.where(i < -{10 * i + salt}, 1.0, a)\n    tl.store("))
    assert (verdict["error_kind"], verdict["correct"]) == (kind, not kind), verdict


def test_everybody_is_up(machines):
    front, compile_servers, perf_servers = machines
    assert front.get("/health")["status"] == "green"
    for i in range(6):
        judge(front, i, 1)
    assert sum(c.get("/health")["report"]["compile_cache_misses"] for c in compile_servers) > 0
    assert all(p.get("/health")["report"]["evaluated"] > 0 for p in perf_servers)  # both took some
    devices = front.get("/gpu_status")["workers"]
    assert {url: one["devices"][0]["state"] for url, one in devices.items()} == {p.url: "healthy" for p in perf_servers}


def test_each_role_has_the_endpoints_of_its_document(machines):
    front, compile_servers, perf_servers = machines
    for role, server in [("front", front), ("compile", compile_servers[0]), ("perf", perf_servers[0])]:
        routes = server.get("/routes")["routes"]
        schemas.Api("evaluator").has({(route["method"], route["path"]) for route in routes}, role)


def test_a_server_that_compiles_answers_and_asks_nobody(machines):
    front, compile_servers, perf_servers = machines
    around = filtered(os.getpid())[0]  # what the tests themselves run in
    assert all(count > around for count in filtered(compile_servers[0].process.pid))
    assert filtered(front.process.pid)[0] == filtered(perf_servers[0].process.pid)[0] == around  # these ask others


def skip_where_missing(error):
    said = error.read().decode()
    assert "requirements/install --languages" in said, said
    pytest.skip(said)


def compiled(compile_servers):
    return sum(one.get("/health")["report"]["compile_cache_misses"] for one in compile_servers)


@pytest.mark.parametrize(
    "name, language, correct", [("Triton", "triton", True), ("Cuda", "cuda", False), ("Hip", "hip", False)]
)
def test_each_language_is_compiled_by_a_server_that_compiles(machines, name, language, correct):
    front, compile_servers, _ = machines
    before, candidate = compiled(compile_servers), prompts_examples()[name]
    try:
        verdict = front.judge(candidate, ADDITION, backend=language)
    except urllib.error.HTTPError as error:
        skip_where_missing(error)
    assert verdict["compiled"] and verdict["correct"] == correct, verdict
    assert verdict["error_kind"] == ("" if correct else "not_run"), verdict
    assert compiled(compile_servers) > before


def test_code_for_a_cpu_is_compiled_where_it_runs(machines):
    front, compile_servers, _ = machines
    before = compiled(compile_servers)
    try:
        verdict = front.judge(prompts_examples()["OpenCl"], ADDITION, backend="opencl")
    except urllib.error.HTTPError as error:
        skip_where_missing(error)
    assert verdict["correct"] and verdict["compile_targets"] == {"cpu": "ok"}, verdict
    assert compiled(compile_servers) == before


C_KERNEL = 'extern "C" __global__ void one(float* y) { y[threadIdx.x] = 1; }'
SOURCES = [
    ("cuda", "sm_90", C_KERNEL),
    ("hip", "gfx942", "#include <hip/hip_runtime.h>\n" + C_KERNEL),
    ("opencl", "cpu", "__kernel void one(__global float* y) { y[get_global_id(0)] = 1; }"),
]


@pytest.mark.parametrize("language, target, source", SOURCES)
def test_a_lowering_says_its_language(machines, language, target, source):
    front, _, _ = machines
    options = {"entry": "one", "block": [64, 1, 1], "shared": 0, "flags": []}
    request = {"language": language, "target": target, "options": options, "text": source}
    try:
        told = front.post("/v2/lowerings", request)
        wrong = front.post("/v2/lowerings", {**request, "text": source.replace("= 1", "= undefined")})
    except urllib.error.HTTPError as error:
        skip_where_missing(error)
    assert told["ok"] and told["shape"]["entry"] == "one", told
    assert not wrong["ok"] and "undefined" in wrong["error"], wrong


def test_a_lowering_in_no_language_is_refused(machines):
    for refused in ({"language": "fortran"}, {}):
        with pytest.raises(urllib.error.HTTPError) as error:
            machines[0].post("/v2/lowerings", {"target": "sm_90", "options": {}, "text": C_KERNEL, **refused})
        assert error.value.code == 400 and b"language" in error.value.read()


def test_killed_servers_cost_no_verdict(machines):
    front, compile_servers, perf_servers = machines
    done = []

    def one(i):
        judge(front, i, 2)
        done.append(i)

    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(one, i) for i in range(60)]
        wait_for(lambda: len(done) >= 10, "nothing was judged")
        compile_servers[0].process.kill()
        wait_for(lambda: len(done) >= 25, "the compile server's death stopped everything")
        wait_for(lambda: perf_servers[0].get("/health")["report"]["busy"] > 0, "the perf server has nothing")
        perf_servers[0].process.kill()
        for future in asked:
            future.result()
    assert sorted(done) == list(range(60))
    wait_for(lambda: states(front, "perf_servers")[perf_servers[0].url] == "red", "its death was not seen")
    wait_for(lambda: states(front, "compile_servers")[compile_servers[0].url] == "red", "its death was not seen")
    assert states(front, "perf_servers")[perf_servers[1].url] == "green"
    assert front.get("/health")["status"] == "yellow"


def test_without_a_server_that_compiles_the_kernel_is_not_blamed(machines):
    front, compile_servers, _ = machines
    compile_servers[1].process.kill()
    with pytest.raises(urllib.error.HTTPError) as refused:
        judge(front, 0, 3)
    assert refused.value.code == 503
    assert b"no compile server" in refused.value.read()


def test_roles_say_what_they_need():
    for flags, text in [
        (["--role", "front"], "--role front needs --perf-servers"),
        (["--compile-servers", "http://127.0.0.1:1"], "--compile-servers is for --role front and --role perf"),
        (["--role", "backstage"], "role"),
    ]:
        done = subprocess.run([BINARY, "serve", "evaluator", *flags], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and text in done.stderr, done.stderr
