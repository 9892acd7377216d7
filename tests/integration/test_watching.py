"""Reports, comparisons and traces of runs, through the program; a trace's collector is a stand-in."""

import http.server
import itertools
import json
import os
import pathlib
import socket
import subprocess
import threading

import pytest

import made_runs

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))


def tritonforge(*arguments, code=0):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    made_runs.write_run(folder / "first", steps=20)
    made_runs.write_run(folder / "second", steps=30, seed=2, temperature="0.69999999999999996")
    return folder


def test_compare_prints_differing_keys_results_and_figures_at_equal_steps(runs):
    shown = json.loads(tritonforge("compare", runs / "first", runs / "second", "--json"))
    assert [line["key"] for line in shown["recipe"]] == ["name", "rl.sampling.temperature", "seed"]
    assert shown["recipe"][1]["values"] == ["1", "0.7"]  # written as 0.69999999999999996
    assert [row["ci95"] for row in shown["results"][2]["rows"]] == [[0.728, 0.841]] * 2
    steps = [at["step"] for at in shown["steps"] if at["stage"] == "rl"]
    assert steps[0] == 1 and steps[-1] == 20 and len(steps) == 8
    written = [json.loads(line) for line in (runs / "second/steps.jsonl").read_text().splitlines()]
    second = {line["step"]: line for line in written if line["stage"] == "rl"}
    for at in shown["steps"]:
        if at["stage"] == "rl":
            assert at["figures"]["reward_mean"][1] == second[at["step"]]["reward_mean"]
    text = tritonforge("compare", runs / "first", runs / "second")
    assert "rl.sampling.temperature  1      0.7" in text and "79.0 % [72.8, 84.1]" in text and "step 20" in text
    assert "no run in" in tritonforge("compare", runs, runs / "first", code=2)
    said = tritonforge("serve", "dashboard", "--run", runs, "--port", "0", code=2)
    assert f"{runs} is no run but holds some: --runs {runs} shows them all" in said


def test_report_of_a_bench_and_of_a_data_build(tmp_path):
    bench = tmp_path / "bench-rl"
    bench.mkdir()
    (bench / "figures.json").write_text("{}")
    (bench / "report.html").write_text("<!doctype html><title>bench</title>")
    tritonforge("report", bench, "--output", tmp_path / "bench.html")
    assert "<title>bench</title>" in (tmp_path / "bench.html").read_text()
    (tmp_path / "recipe.yaml").write_text("name: x\n")  # a run that did nothing else
    tritonforge("report", tmp_path, "--output", tmp_path / "run.html")
    assert "<title>bench</title>" in (tmp_path / "run.html").read_text()
    data = tmp_path / "data"
    data.mkdir()
    stage = {"name": "filter", "in": 4, "kept": 3, "dropped": {"too long": 1}, "repaired": {}}
    card = {
        "name": "pairs",
        "seed": 1,
        "stages": [stage],
        "splits": {},
        "families": {"pool": 3},
        "licences": {"MIT": 3},
    }
    (data / "card.json").write_text(json.dumps(card | {"inputs": {}, "outputs": {}}))
    page = tmp_path / "not/yet/there/data.html"
    tritonforge("report", data, "--output", page)
    assert "3 of 4 rows kept" in page.read_text()
    said = tritonforge("report", data, "--output", tmp_path, code=2)
    assert said == f"tritonforge: {tmp_path} is a folder; name a file in it\n"


def test_a_trace_has_steps_parts_trajectories_and_requests(runs, tmp_path):
    said = tritonforge("trace", runs / "first", "--output", tmp_path / "new/trace.json")
    events = [e for e in json.loads((tmp_path / "new/trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    written = [json.loads(line) for line in (runs / "first/trajectories.jsonl").read_text().splitlines()]
    turns = sum(len(one["turns"]) for one in written)
    assert f"220 steps, {len(written)} trajectories, {2 * turns} requests" in said
    assert sum(e["cat"] == "engines" for e in events) == sum(e["cat"] == "evaluator" for e in events) == turns
    step = next(e for e in events if e["name"] == "rl 7")
    inside = [e for e in events if e["cat"] == "orchestrator" and e["args"]["trace_id"] == step["args"]["trace_id"]]
    assert {e["name"] for e in inside} == {"rl 7", "collect", "train", "sync"}
    assert all(step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"] + 1 for e in inside)
    tracks = {}
    for event in (e for e in events if e["cat"] == "engines"):  # what overlaps is on tracks of its own
        tracks.setdefault(event["tid"], []).append(event)
    for track in tracks.values():
        track.sort(key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1 for a, b in itertools.pairwise(track))
    assert len(tracks) > 1


class Collector(http.server.BaseHTTPRequestHandler):
    bodies = []  # noqa: RUF012

    def do_POST(self):
        assert self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments):
        pass


def test_a_collector_gets_the_same_spans(runs, tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tritonforge("trace", runs / "first", "--otlp", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    spans = {}
    for body in Collector.bodies:
        for resource in body["resourceSpans"]:
            service = resource["resource"]["attributes"][0]["value"]["stringValue"]
            for span in resource["scopeSpans"][0]["spans"]:
                assert len(span["traceId"]) == 32 and len(span["spanId"]) == 16 and span["spanId"] not in spans
                spans[span["spanId"]] = span | {"service": service}
    tritonforge("trace", runs / "first", "--output", tmp_path / "trace.json")
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert {e["args"]["span_id"] for e in events} == set(spans)
    for span in spans.values():
        parent = spans.get(span.get("parentSpanId"))
        assert parent is None or parent["traceId"] == span["traceId"]
        assert parent or span["service"] in ("tritonforge-orchestrator", "tritonforge-buffer", "tritonforge-trainer")


def test_a_dead_or_slow_collector_is_named(runs):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        assert url in tritonforge("trace", runs / "first", "--otlp", url, code=1)
        nobody.listen()  # takes the connection and never answers
        assert url in tritonforge("trace", runs / "first", "--otlp", url, "--timeout", "0.3", code=1)
