"""`tritonforge bench` as a whole, over a chat server that is not ours: problems from Parquet that others wrote, results
in KernelBench's files, Parquet and HTML, and kill -9 at random instants without an answer or a verdict lost or made
twice."""

import collections
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socketserver
import sqlite3
import subprocess
import threading
import time

import pytest

import buffer_file
from front_door import KERNEL
from test_buffer import wait_until
from test_trainer import preloaded

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))

PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.{operator}(x)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
"""

EXPRESSIONS = {"relu": "tl.maximum(x, 0.0)", "abs": "tl.abs(x)", "exp": "tl.exp(x)", "square": "x * x"}


class ChatServer:
    """OpenAI's chat completions. A first answer is wrong where its seed is odd, a later one is right."""

    def __init__(self):
        server = self
        self.lock = threading.Lock()
        self.asked = collections.Counter()  # seed -> requests

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with server.lock:
                    server.asked[body["seed"]] += 1
                reply = json.dumps(server.reply(body)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):  # whoever asked was killed
                pass

        self.http = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def reply(self, body):
        opening = " ".join(m["content"] for m in body["messages"] if m["role"] == "user")
        # The last one is the problem's own; the prompt shows another as an example.
        operator = re.findall(r"return torch\.(\w+)\(x\)", opening)[-1]
        wrong = len(body["messages"]) == 2 and int(hashlib.sha256(str(body["seed"]).encode()).hexdigest(), 16) % 2
        expression = "x + 1.0" if wrong else EXPRESSIONS[operator]
        code = f"# seed {body['seed']}\n" + KERNEL.format(expression=expression)
        message = {"role": "assistant", "content": f"```python\n{code}```"}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def requests(self):
        with self.lock:
            return sum(self.asked.values())

    def times_asked(self):
        with self.lock:
            return dict(self.asked)


@pytest.fixture
def server():
    chat = ChatServer()
    yield chat
    chat.http.shutdown()


def write_problems(path):
    """As another program would: a dictionary, 32-bit numbers, a column more, several row groups."""
    names = list(EXPRESSIONS)
    table = pa.table(
        {
            "code": pa.array([PROBLEM.format(operator=name) for name in names], pa.large_string()),
            "level": pa.array([1, 1, 1, 2], pa.int32()),
            "name": pa.array([f"{i + 1}_{name}" for i, name in enumerate(names)]).dictionary_encode(),
            "problem_id": pa.array([1, 2, 3, 4], pa.int16()),
            "tags": [["a"], [], None, ["b", "c"]],
        }
    )
    pq.write_table(table, path, row_group_size=2, compression="gzip")


class Bench:
    def __init__(self, folder, server, *flags):
        self.output, self.unfinished = folder / "run", 0
        self.command = [BINARY, "bench", "--problems", str(folder / "problems.parquet"), "--model", server.url]
        self.command += ["--chat-model", "mock", "--turns", "2", "--output", str(self.output), *flags]

    def start(self, *flags):
        return subprocess.Popen(
            [*self.command, *flags],
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if key != "TRITONFORGE_ROOT"},  # as a user has it
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process):
        said, _ = process.communicate(timeout=400)
        assert process.returncode == 0, said[-4000:]
        return said

    def status(self, process):
        """Of this process: the file may still be its predecessor's."""
        path = self.output / "status.json"
        status = json.loads(path.read_text()) if path.exists() else {}
        return status if status.get("pid") == process.pid else {"stage": "", "roles": []}

    def kill_role(self, name, process):
        """Once it is up: one that dies while it starts ends the run, which says so."""
        while process.poll() is None:
            status = self.status(process)
            roles = {item["name"]: item for item in status["roles"]}
            if status["stage"] == "bench base" and roles[name]["state"] == "green":
                os.kill(roles[name]["pid"], signal.SIGKILL)
                return
            time.sleep(0.01)

    def recorded(self):
        """(group, sample, turn) -> (judged, the turn) of everything that is durable now; those of samples that were
        under way are counted in self.unfinished."""
        turns = {}
        if not (self.output / "buffer.sqlite").exists():
            return turns
        with sqlite3.connect(f"file:{self.output}/buffer.sqlite?mode=ro", uri=True, timeout=30) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if "turns" not in tables:
                return turns
            db.execute("BEGIN")
            kept = "SELECT group_id, sample, turn, judged, body FROM turns"
            for group, sample, turn, judged, body in db.execute(kept):
                turns[group, sample, turn] = (bool(judged), json.loads(body))
            self.unfinished += len(turns)
            for trajectory in buffer_file.trajectories(db):
                sample = int(trajectory["id"].rpartition(".")[2])
                for turn, value in enumerate(trajectory["turns"]):
                    value.pop("feedback", None)  # it comes after the verdict, with which the turn was kept
                    turns[trajectory["group_id"], sample, turn] = (True, value)
        return turns


def seed_of(turn):
    return int(re.search(r"# seed (\d+)", turn["text"]).group(1))


def kernelbench_summary(folder, level):
    """What KernelBench's benchmark_eval_analysis.py reads and counts, written anew from its text."""
    results = json.loads((folder / f"runs/level{level}/eval_results.json").read_text())
    first = {}
    for key, entries in results.items():
        int(key)
        picked = [entry for entry in entries if entry["sample_id"] == 0]
        assert len(picked) <= 1
        if picked:
            first[key] = picked[0]
    fields = {"compiled", "correctness", "metadata", "runtime", "runtime_stats"}
    assert all(set(entry) >= fields for entry in first.values())
    passes = json.loads((folder / f"runs/level{level}/pass_at_k_results.json").read_text())
    return (
        list(results),
        sum(entry["compiled"] is True for entry in first.values()),
        sum(entry["correctness"] is True for entry in first.values()),
        [entry["runtime"] for entry in first.values()],
        passes["averages"],
    )


def test_a_chat_server_is_measured_and_everybody_can_read_the_results(tmp_path, server):
    write_problems(tmp_path / "problems.parquet")
    bench = Bench(tmp_path, server, "--samples", "2")
    told, reply = threading.Event(), server.reply
    server.reply = lambda body: (told.wait(60), reply(body))[1]  # no answer before progress was told
    process = bench.start()
    said = ""
    for line in process.stdout:
        said += line
        if "0/8  0 correct, 0 turns" in line:  # live progress, by samples
            told.set()
    assert process.wait(timeout=60) == 0 and told.is_set(), said
    assert said.count("95 % interval") == 1, said
    progress = json.loads((bench.output / "status.json").read_text())["progress"]
    turns = sum(server.times_asked().values())
    assert progress == {"done": 8, "total": 8, "note": f"8 correct, {turns} turns"}
    results = bench.output / "bench-base"
    figures = json.loads((results / "figures.json").read_text())
    rows = {(row["turns"], row["answer"], row["group"]): row for row in figures["rows"]}
    every = rows[2, "best", "all"]
    assert every["samples"] == 8 and every["failed"] == 0 and every["correct"]["value"] == 1
    single = rows[1, "best", "all"]["correct"]["value"]
    assert single < 1 and single * 8 == round(single * 8)
    assert every["eager"] is None and "CPU" in figures["eager"]["why_not"]
    assert {"level 1", "level 2"} <= {row["group"] for row in figures["rows"]}
    assert figures["sampling_budget"]["samples_per_problem"] == 2 and figures["hardware"]["cores"] > 0

    keys, compiled, correct, runtimes, averages = kernelbench_summary(results / "kernelbench", 1)
    assert (keys, compiled, correct) == (["1", "2", "3"], 3, 3)
    assert runtimes == [-1.0] * 3 and averages["avg_pass@2"] == 1.0
    kernel = (results / "kernelbench/runs/level1/level_1_problem_1_sample_0_kernel.py").read_text()
    assert "class ModelNew" in kernel

    samples = pq.read_table(results / "samples.parquet").to_pylist()
    assert len(samples) == sum(server.times_asked().values())
    assert all(row["speedup"] is None for row in samples)
    assert {row["problem_id"] for row in samples if row["last_turn"] and row["correct"]} == {
        "level1_1_relu", "level1_2_abs", "level1_3_exp", "level2_4_square"
    }  # fmt: skip
    page = (results / "report.html").read_text()
    assert "not measured: plan mode judges on the CPU" in page and "<script" not in page
    shown = shown_by_a_browser(results / "report.html")
    assert shown is None or shown.count("correct, not timed") >= 8
    assert "OPENAI_API_KEY" not in (bench.output / "recipe.yaml").read_text()


def shown_by_a_browser(page):
    """The page's text, as Chromium lays it out without a network."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"]
    shown = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return shown.stdout


def test_a_chat_server_that_refuses_is_nobody_elses_fault(tmp_path, server):
    write_problems(tmp_path / "problems.parquet")
    server.reply = lambda body: {"error": "no choices"}
    bench = Bench(tmp_path, server, "--samples", "1")
    process = bench.start()
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 1, said
    assert "every trajectory failed, none through the model" in said and "field 'choices' must be a list" in said


def test_a_bench_that_is_stopped_speaks_of_no_trainer(tmp_path, server):
    write_problems(tmp_path / "problems.parquet")
    stopped = threading.Event()
    server.reply = lambda body: stopped.wait(60) and {}
    process = Bench(tmp_path, server, "--samples", "1").start()
    assert any(line.startswith("bench base") for line in process.stdout)
    process.send_signal(signal.SIGINT)
    line = next(line for line in process.stdout if line.startswith("stopping: "))
    stopped.set()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert line.startswith("stopping: the turns under way end ("), line


def test_kernels_of_others_are_judged_once_whatever_is_in_them(tmp_path):
    """A file that is no UTF-8 costs nobody the results, a broken problem no rate; and verdicts outlive a kill."""
    theirs, problems, output = tmp_path / "theirs", tmp_path / "problems/level1", tmp_path / "run"
    theirs.mkdir()
    problems.mkdir(parents=True)
    (problems / "1_relu.py").write_text(PROBLEM.format(operator="relu"))
    (problems / "2_broken.py").write_text(PROBLEM.format(operator="there_is_no_such_operator"))
    for name in ("1_sample_0", "2_sample_0", "7_sample_0"):
        (theirs / f"level_1_problem_{name}_kernel.py").write_text(KERNEL.format(expression=EXPRESSIONS["relu"]))
    (theirs / "level_1_problem_1_sample_1_kernel.py").write_bytes(b"# caf\xe9\n")

    def judged(*flags, to=output, code=0):
        command = [BINARY, "bench", "--problems", problems.parent, "--generations", theirs, "--output", to, *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stderr
        return done

    assert "3 kernels of 2 problems, 1 of no problem here; results" in judged().stdout
    figures = json.loads((output / "figures.json").read_text())
    every = next(row for row in figures["rows"] if row["group"] == "all" and row["answer"] == "best")
    assert (every["samples"], every["failed"], every["correct"]["value"]) == (2, 1, 0.5)
    assert "# caf\ufffd\n" in pq.read_table(output / "samples.parquet")["code"].to_pylist()

    lines = (output / "verdicts.jsonl").read_text().splitlines(keepends=True)
    (output / "verdicts.jsonl").write_text(lines[0] + lines[1][:40])  # as a kill leaves it
    judged("--resume")
    again = (output / "verdicts.jsonl").read_text().splitlines(keepends=True)
    assert len(again) == 2 and again[0] == lines[0]
    judged()
    assert (output / "verdicts.jsonl").read_text().splitlines(keepends=True)[0] != lines[0]

    (tmp_path / "kept/verdicts.jsonl").mkdir(parents=True)  # what cannot be kept is no failed evaluation
    said = judged("--resume", to=tmp_path / "kept", code=1).stderr.splitlines()[-1]
    assert said == f"tritonforge: cannot open {tmp_path}/kept/verdicts.jsonl: Is a directory"
    (tmp_path / "file").touch()
    said = judged(to=tmp_path / "file/run", code=1).stderr
    assert said == f"tritonforge: {tmp_path}/file/run: cannot be made: Not a directory\n"


def test_what_is_not_judged_of_others_is_named(tmp_path):
    theirs, problems = tmp_path / "theirs", tmp_path / "problems/level1"
    theirs.mkdir()
    problems.mkdir(parents=True)
    for name in ("1_relu.py", ".2_relu.py", "3_relu.PY"):
        (problems / name).write_text(PROBLEM.format(operator="relu"))
    names = [f"level_1_problem_1_sample_{sample}_kernel" for sample in (0, 2)]
    for name in (*names, "relu", "level_1_problem_1_sample_1"):
        (theirs / f"{name}.py").write_text(KERNEL.format(expression=EXPRESSIONS["relu"]))
    (theirs / "README.md").touch()
    command = [BINARY, "bench", "--problems", problems.parent, "--generations", theirs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "2 kernels of 1 problems; results" in done.stdout, done.stderr
    warnings = [line.split("] ", 1)[1] for line in done.stderr.splitlines() if " W " in line]
    form = "level_LEVEL_problem_NUMBER_sample_NUMBER_kernel.py"
    assert warnings == [
        f"--generations {theirs}: not judged, for their names are not {form}: level_1_problem_1_sample_1.py, relu.py",
        f"--generations {theirs}: before a problem's last sample, these have no file and so no verdict: "
        "level_1_problem_1_sample_1",
        f"bench.problems: skipped in {problems.parent}, hidden or with an ending not in small letters: "
        "level1/.2_relu.py, level1/3_relu.PY",
    ]
    old = theirs / "level_01_problem_1_sample_0_kernel.py"  # of an older run: which of the two is meant?
    old.touch()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "are the same sample" in done.stderr, done.stderr
    assert old.name in done.stderr and f"{names[0]}.py" in done.stderr


def test_kernels_of_others_are_gone_on_with_after_ctrl_c(tmp_path):
    theirs, problems, output = tmp_path / "theirs", tmp_path / "problems/level1", tmp_path / "run"
    theirs.mkdir()
    problems.mkdir(parents=True)
    (problems / "1_relu.py").write_text(PROBLEM.format(operator="relu"))
    for sample in range(40):  # none like another: each is judged
        text = KERNEL.format(expression=EXPRESSIONS["relu"]) + f"# {sample}\n"
        (theirs / f"level_1_problem_1_sample_{sample}_kernel.py").write_text(text)
    command = [BINARY, "bench", "--problems", problems.parent, "--generations", theirs, "--output", output]
    disk = tmp_path / "disk"  # it takes no verdict until the signal was heard, so that not all are judged by then
    disk.mkdir()
    (disk / "verdicts.jsonl").touch()
    held = os.environ | {"LD_PRELOAD": preloaded(tmp_path, "hold_sync"), "HOLD_SYNC": str(disk)}
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=held)
    wait_until((disk / "verdicts.jsonl.held").exists, "a verdict")
    process.send_signal(signal.SIGINT)
    assert any(line.startswith("stopping: ") for line in process.stderr)
    (disk / "verdicts.jsonl").unlink()
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    kept = verdicts_in(output)
    assert f"; {len(kept)} of 40 kernels are judged, the same command with --resume goes on" in said.splitlines()[-1]
    assert 0 < len(kept) < 40
    subprocess.run([*command, "--resume"], cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert verdicts_in(output)[: len(kept)] == kept and len(verdicts_in(output)) == 40


def verdicts_in(output):
    file = output / "verdicts.jsonl"
    return file.read_text().splitlines() if file.exists() else []


def test_an_engine_behind_a_key_is_sent_that_of_the_environment(tmp_path):
    write_problems(tmp_path / "problems.parquet")
    engine = subprocess.Popen(
        [BINARY, "serve", "engine", "--model", "models/tiny-base", "--port", "0", "--kv-cache-tokens", "8192"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ | {"TRITONFORGE_API_KEY": "open-sesame"},
    )  # fmt: skip
    try:
        url = next(m[0] for line in engine.stderr if (m := re.search(r"http://127\.0\.0\.1:\d+", line)))
        command = [BINARY, "bench", "--problems", tmp_path / "problems.parquet", "--limit", "1", "--prompt", "minimal"]
        command += ["--model", url, "--tokenizer", "models/tiny-base", "--max-new-tokens", "8"]
        command += ["--output", tmp_path / "run"]
        for key, code, *resume in ("", 1), ("open-sesame", 0, "--resume"):  # nothing was spent on the wrong one
            done = subprocess.run(
                [*command, *resume], cwd=ROOT, capture_output=True, text=True, timeout=300,
                env=os.environ | {"TRITONFORGE_PEER_API_KEY": key},
            )  # fmt: skip
            assert done.returncode == code, done.stderr
            said = done.stderr.splitlines()[-1]
            assert (f"{url} answered 401: this server needs its API key" in said) == (code == 1), done.stderr
            assert ("TRITONFORGE_PEER_API_KEY" in said and "--resume" in said) == (code == 1), done.stderr
    finally:
        engine.kill()
        engine.communicate()


def test_a_page_in_place_of_an_answer_is_one_line(tmp_path):
    class Website(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            self.send_error(404)

        def do_POST(self):
            self.send_error(501)

    website = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Website)
    threading.Thread(target=website.serve_forever, daemon=True).start()
    write_problems(tmp_path / "problems.parquet")
    command = [BINARY, "bench", "--problems", tmp_path / "problems.parquet", "--limit", "1", "--chat-model", "m"]
    command += ["--model", f"http://127.0.0.1:{website.server_address[1]}/v1", "--output", tmp_path / "run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    website.shutdown()
    assert done.returncode == 1, done.stderr
    assert "answered 501: a page in HTML, 'Error response'" in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "GET {url}/health: 404"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "GET {url}/health: bad version (while reading a malformed reply)"),
    ],
    ids=["a website", "no HTTP"],
)
def test_what_is_no_engine_is_not_waited_for(tmp_path, answer, said):
    class NoEngine(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(4096)
            self.request.sendall(answer)

    write_problems(tmp_path / "problems.parquet")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), NoEngine) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_address[1]}"
        command = [BINARY, "bench", "--problems", tmp_path / "problems.parquet", "--limit", "1", "--model", url]
        command += ["--tokenizer", "models/tiny-base", "--output", tmp_path / "run"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        other.shutdown()
    assert done.returncode in (1, 2), done.stderr
    assert done.stderr.startswith("tritonforge: engine.external: " + said.format(url=url)), done.stderr
    assert "is this the address of another server?" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "run").exists()  # nothing was started


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_instants_nothing_is_lost_or_made_twice(tmp_path, server, seed):
    draw = random.Random(seed)
    write_problems(tmp_path / "problems.parquet")
    bench = Bench(tmp_path, server, "--samples", "6")
    process = bench.start()
    durable, asked_at = {}, {}
    for kill in range(4):
        target = server.requests() + draw.randrange(1, 8)
        deadline = time.monotonic() + 200
        while server.requests() < target and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if process.poll() is not None:
            break
        if kill % 2 == 0:  # the whole program
            process.kill()
            process.communicate()
            process = None
        else:  # the role that holds the samples; the supervisor starts it again
            bench.kill_role("buffer", process)
        now = bench.recorded()
        for key, (judged, turn) in durable.items():
            assert key in now and now[key][1]["text"] == turn["text"], key
            assert not judged or now[key] == (True, turn), key
        durable = now
        asked = server.times_asked()
        for _, turn in durable.values():
            asked_at.setdefault(seed_of(turn), asked[seed_of(turn)])
        if process is None:
            process = bench.start("--resume")
    bench.finish(process)
    final = bench.recorded()
    assert bench.unfinished > 0 and len({key[:2] for key in final}) == 24
    for key, (judged, turn) in durable.items():
        assert final[key][1]["text"] == turn["text"], key
        # The very verdict, with the times it took: none was made again.
        assert not judged or final[key][1]["verdict"] == turn["verdict"], key
    asked = server.times_asked()
    assert all(asked[at] == count for at, count in asked_at.items()), "an answer that was durable was asked for again"
    assert all(turn["verdict"]["correct"] for (_, _, number), (_, turn) in final.items() if number == 1)
    figures = json.loads((bench.output / "bench-base/figures.json").read_text())
    assert next(r for r in figures["rows"] if r["turns"] == 2)["samples"] == 24


def benched(folder, server, faults):
    """(its table, {(group, sample, turn): verdict}, the evaluator's log) of a bench over two emulated devices."""
    folder.mkdir()
    write_problems(folder / "problems.parquet")
    recipe = f"""
name: devices
stages: [bench]
dashboard_port: 0
model: {{chat_url: {server.url}, chat_name: mock}}
rollout: {{max_turns: 2, prompt: kernelbench}}
bench: {{problems: {folder}/problems.parquet, samples: 3, turns: [1, 2], models: [base]}}
evaluator: {{workers: 2, num_correct_trials: 2, candidate_timeout_s: 8, emulated_faults: {faults},
            devices: ["emulated-gfx942:0", "emulated-gfx942:1"]}}
"""
    (folder / "recipe.yaml").write_text(recipe)
    command = [BINARY, "run", str(folder / "recipe.yaml"), "--output", str(folder / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    table = json.loads((folder / "run/result.json").read_text())["stages"]
    with sqlite3.connect(f"file:{folder}/run/buffer.sqlite?mode=ro", uri=True) as db:
        verdicts = {
            (trajectory["id"], number): {name: turn["verdict"][name] for name in ("correct", "stage", "error_kind")}
            for trajectory in buffer_file.trajectories(db)
            for number, turn in enumerate(trajectory["turns"])
        }
    return table, verdicts, (folder / "run/logs/evaluator.log").read_text()


def test_devices_that_die_under_three_jobs_of_ten_change_no_figure(tmp_path, server):
    """A verdict is the device's that lived; turns and their feedback are those of a bench without faults."""
    table, verdicts, _ = benched(tmp_path / "undisturbed", server, 0)
    assert {row["pass_at_1"] for row in table if row["turns"] == 2} == {1.0}, table
    assert 0 < table[0]["pass_at_1"] < 1 and len(verdicts) > 12, table
    disturbed = benched(tmp_path / "disturbed", server, 0.3)
    assert disturbed[:2] == (table, verdicts)
    assert "the job is run again" in disturbed[2], disturbed[2]
