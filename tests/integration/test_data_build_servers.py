"""`tritonforge data build` with servers beside it: several evaluators and a kill between them, a teacher, and the
recipe of KernelBook. The servers stand in for real ones: they answer at once and write down what they were asked."""

import collections
import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))


class Server:
    """Answers POST with what `reply(body, headers)` gives: (status, JSON). GET is a health check."""

    def __init__(self, reply, port=0):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self):
                self.answer(200, {"status": "ok"})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.answer(*reply(self.path, body, self.headers))

        class Quiet(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):  # whoever asked was killed
                pass

        self.http = Quiet(("127.0.0.1", port), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


class Judge(Server):
    """An evaluator that finds one candidate in ten wrong, by its text."""

    def __init__(self, seconds=0.0, port=0):
        self.lock, self.judged, self.seconds = threading.Lock(), collections.Counter(), seconds
        super().__init__(self.reply, port)

    def reply(self, path, body, _):
        assert path == "/v2/evaluations"
        time.sleep(self.seconds)  # the work of a real one
        candidate = body["candidate"]
        with self.lock:
            self.judged[body["problem"]["source"], candidate] += 1
        if int(hashlib.sha256(candidate.encode()).hexdigest(), 16) % 10 == 0:
            return 200, {"stage": "launched", "compiled": True, "correct": False, "error_kind": "mismatch"}
        return 200, {"stage": "correct", "compiled": True, "correct": True}


@pytest.fixture
def serve():
    servers = []

    def start(server):
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.http.shutdown()


def build(config, *more, env=None):
    done = subprocess.run(
        [BINARY, "data", "build", config, "--json", *more],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def stage_of(card, name):
    return next(stage for stage in card["stages"] if stage["name"] == name)


def quickstart_pairs(folder, count):
    lines = (ROOT / "problems/quickstart/pairs.jsonl").read_text().splitlines()
    pairs = [pair for pair in map(json.loads, lines) if pair["split"] == "train"][:count]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return folder / "pairs.jsonl", {(pair["problem"], pair["solution"]) for pair in pairs}


def own_evaluator_of(process):
    """Its pid and port, as soon as it is there: it is stopped before it listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"serve", b"evaluator"]:
                os.kill(int(child), signal.SIGSTOP)
                return int(child), int(words[words.index(b"--port") + 1])
        time.sleep(0.001)
    raise AssertionError("no evaluator was started")


def test_who_has_the_port_of_its_own_evaluator_is_not_taken_for_it(serve, tmp_path):
    pairs, _ = quickstart_pairs(tmp_path, 2)
    config = tmp_path / "build.yaml"
    config.write_text(
        f"name: test\noutput: {tmp_path}/out\nsources: [pairs: {{path: {pairs}}}]\n"
        "stages: [convert: {prompt: minimal}, quality: {trials: 1}]\noutputs: [jsonl]\n"
    )
    process = subprocess.Popen([BINARY, "data", "build", config], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    evaluator, port = own_evaluator_of(process)
    other = serve(Judge(port=port))
    os.kill(evaluator, signal.SIGCONT)
    said = process.communicate(timeout=180)[1]
    assert process.returncode == 1 and not other.judged
    assert "the evaluator did not start: it exited with" in said and str(port) in said


def test_every_evaluator_works_and_a_kill_repeats_nothing_that_was_judged(serve, tmp_path):
    judges = [serve(Judge(seconds=0.02)) for _ in range(3)]
    at_once, rows = 2, 300
    pairs, distinct = quickstart_pairs(tmp_path, rows)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"name: t\noutput: {tmp_path}/out\ntokenizer: {ROOT}/models/tiny-base\nsources: [pairs: {{path: {pairs}}}]\n"
        f"stages: [convert, quality: {{at_once: {at_once}, evaluators: {[judge.url for judge in judges]}}}]\n"
        "outputs: [jsonl]\n"
    )
    verdicts = tmp_path / "out/verdicts.jsonl"
    for at_least, number in ((20, signal.SIGKILL), (90, signal.SIGINT)):
        process = subprocess.Popen([BINARY, "data", "build", config], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 120
        while not verdicts.exists() or verdicts.read_text().count("\n") < at_least:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said.endswith(
        f"tritonforge: stopped by Interrupt; the same command goes on with the verdicts and thoughts that are kept in "
        f"{tmp_path}/out\n"
    )
    kept = verdicts.read_text().count("\n")
    assert kept < rows
    card = build(config)
    quality = stage_of(card, "quality")
    assert quality["report"]["verdicts_of_earlier_builds"] >= kept - 1  # the last line may be torn
    asked = sum((judge.judged for judge in judges), collections.Counter())
    assert set(asked) == distinct, "nothing is lost"
    # What was being judged at a kill is the only thing that is judged again.
    assert sum(asked.values()) - len(distinct) <= 2 * at_once * len(judges)
    keys = [json.loads(line)["key"] for line in verdicts.read_text().splitlines()]
    assert len(keys) == len(set(keys))
    for judge in judges:
        assert sum(judge.judged.values()) > rows / 6, "each takes its share"
    wrong = sum(int(hashlib.sha256(s.encode()).hexdigest(), 16) % 10 == 0 for _, s in distinct)
    assert quality["dropped"] == {"mismatch": wrong} and quality["kept"] == rows - wrong


def test_an_evaluator_that_is_gone_is_done_without(serve, tmp_path):
    judges = [serve(Judge()), serve(Server(lambda *_: (400, {"error": {"message": "this one judges no more"}})))]
    pairs, distinct = quickstart_pairs(tmp_path, 30)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"name: t\noutput: {tmp_path}/out\ntokenizer: {ROOT}/models/tiny-base\nsources: [pairs: {{path: {pairs}}}]\n"
        f"stages: [convert, quality: {{evaluators: {[judge.url for judge in judges]}}}]\noutputs: [jsonl]\n"
    )
    card = build(config)
    assert stage_of(card, "quality")["in"] == 30 and set(judges[0].judged) == distinct


def test_a_teacher_is_asked_for_each_thought_once(serve, tmp_path):
    asked, lock = collections.Counter(), threading.Lock()

    def teach(path, body, headers):
        assert path == "/v1/chat/completions" and headers["authorization"] == "Bearer secret"
        assert body["model"] == "big" and "stream" not in body
        question = "\n".join(message["content"] for message in body["messages"])
        with lock:
            first = asked[question] == 0
            asked[question] += 1
            busy = first and len(asked) % 5 == 0
        if busy:
            return 503, {"error": {"message": "busy"}}
        thought = f"<think>not this</think>\nIt is row {len(question)}: one program a block."
        return 200, {"choices": [{"message": {"role": "assistant", "content": thought}, "finish_reason": "stop"}]}

    teacher = serve(Server(teach))
    pairs, _ = quickstart_pairs(tmp_path, 40)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"name: t\noutput: {tmp_path}/out\ntokenizer: {ROOT}/models/tiny-base\nsources: [pairs: {{path: {pairs}}}]\n"
        f"stages: [convert, thinking: {{from: teacher, url: {teacher.url}/v1, model: big, required: true}}]\n"
        "outputs: [jsonl]\n"
    )
    card = build(config, env={"OPENAI_API_KEY": "secret"})
    assert stage_of(card, "thinking")["kept"] == 40
    rows = [json.loads(line) for line in (tmp_path / "out/jsonl/train.jsonl").read_text().splitlines()]
    for row in rows:
        last = row["messages"][-1]
        assert last["reasoning_content"].startswith("It is row ") and "not this" not in json.dumps(row)
    assert len(asked) == 40 and sum(asked.values()) == 40 + 8, "only what was refused is asked again"
    build(config, env={"OPENAI_API_KEY": "secret"})
    assert sum(asked.values()) == 48, "a second build asks nothing"


def test_evaluators_behind_a_key_are_sent_that_of_the_environment(serve, tmp_path):
    class Closed(Judge):
        def reply(self, path, body, headers):
            if headers["authorization"] != "Bearer secret":
                return 401, {"error": {"message": "no key"}}
            return super().reply(path, body, headers)

    judge = serve(Closed())
    pairs, _ = quickstart_pairs(tmp_path, 20)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"name: t\noutput: {tmp_path}/out\ntokenizer: {ROOT}/models/tiny-base\nsources: [pairs: {{path: {pairs}}}]\n"
        f"stages: [convert, quality: {{evaluators: ['{judge.url}']}}]\noutputs: [jsonl]\n"
    )
    commands = [
        ["build", config],
        ["generate", "--output", tmp_path / "made.jsonl", "--count", "3", "--evaluator", judge.url],
    ]
    for command in commands:
        for key in "wrong", "secret":
            done = subprocess.run(
                [BINARY, "data", *command], capture_output=True, text=True, cwd=ROOT, timeout=120,
                env=os.environ | {"TRITONFORGE_PEER_API_KEY": key},
            )  # fmt: skip
            assert (done.returncode == 0) == (key == "secret"), done.stderr
            assert ("401" in done.stderr.splitlines()[-1]) == (key == "wrong"), done.stderr


def test_the_recipe_of_kernelbook_on_rows_like_it(serve, tmp_path):
    """All of its stages; the rows and the evaluator are stand-ins."""
    rows = 250
    made = [sys.executable, ROOT / "bench/kernelbook_like.py", tmp_path / "rows.parquet", "--rows", str(rows)]
    subprocess.run(made, check=True, capture_output=True)
    judge = serve(Judge())
    recipe = (ROOT / "recipes/data/kernelbook.yaml").read_text()
    for old, new in [
        ("data/KernelBook}", f"{tmp_path}/rows.parquet}}"),
        ("[data/KernelBench]", f"[{ROOT}/problems]"),
        ("models/Qwen3-8B", f"{ROOT}/tests/data/tiny-tokenizer"),
        ("max: 8192", "max: 20000"),  # the tests' tokenizer knows few words
        ("quality: {", f"quality: {{evaluators: [{judge.url}], "),
    ]:
        assert recipe.count(old) == 1, old
        recipe = recipe.replace(old, new)
    config = tmp_path / "kernelbook.yaml"
    config.write_text(recipe)
    card = build(config, "--set", f"output={tmp_path}/out")
    assert [stage["name"] for stage in card["stages"]] == [
        "read", "clean", "convert", "thinking", "tokens", "length", "dedup", "contamination", "quality", "split"
    ]  # fmt: skip
    for before, after in zip(card["stages"], card["stages"][1:]):
        assert before["kept"] == after["in"] == after["kept"] + sum(after["dropped"].values())
    assert card["stages"][0]["in"] == rows
    dedup, quality = stage_of(card, "dedup"), stage_of(card, "quality")
    assert rows / 50 < sum(dedup["dropped"].values()) < rows / 8, "one in twenty and one in fifty are earlier ones"
    assert set(quality["dropped"]) == {"mismatch"} and rows / 30 < quality["dropped"]["mismatch"] < rows / 6
    assert sum(judge.judged.values()) == quality["in"]
    written = sum(split["rows"] for split in card["splits"].values())
    assert written == card["stages"][-1]["kept"] > rows * 0.75
    assert sum(card["licences"].values()) == written and set(card["licences"]) <= {"MIT", "Apache-2.0", "BSD-3-Clause"}
    dropped = [json.loads(line) for line in (tmp_path / "out/dropped.jsonl").read_text().splitlines()]
    assert len(dropped) == rows - written
    shown = (tmp_path / "out/card.txt").read_text()
    for stage in card["stages"]:
        assert f"{stage['name']:<12}" in shown
