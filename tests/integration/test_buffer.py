"""The rollout buffer as a real process between a mock engine and a mock evaluator: killed, out of disk, stopped."""

import contextlib
import http.server
import json
import os
import pathlib
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import reserved_port  # beside the folders of tests

BINARY = os.environ.get("TRITONFORGE_BINARY")
TOKENIZER = pathlib.Path(__file__).parent.parent / "data" / "tiny-tokenizer"
pytestmark = pytest.mark.skipif(not BINARY, reason="TRITONFORGE_BINARY names the program to test")

DEADLINE_S = 120


def call(url, body=None, timeout=DEADLINE_S):
    """(status, bytes) of a GET, or of a POST where a body is given."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def wait_until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {DEADLINE_S} s for {what}")


class Peers:
    """Engine and evaluator in one server. Every answer is a function of the seed; a verdict of the candidate."""

    def __init__(self):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
        self.hold = threading.Event()  # set: answers flow
        self.hold.set()
        self.padding = ""
        peers = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                peers.hold.wait()
                reply = peers.generate(body) if self.path == "/generate" else peers.evaluate(body)
                data = json.dumps(reply).encode()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(200)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a killed buffer resets its connections

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def generate(self, body):
        seed = body["sampling_params"]["sampling_seed"]
        text = f"```python\n# {seed}{self.padding}\nclass ModelNew:\n    def forward(self, x): return x\n```<|im_end|>"
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return {
            "text": text,
            "output_ids": ids,
            "meta_info": {
                "finish_reason": {"type": "stop"},
                "output_token_logprobs": [[-0.5, token, None] for token in ids],
                "weight_version": "1",
            },
        }

    @staticmethod
    def evaluate(body):
        seed = int(body["candidate"].split("#")[1].split()[0].split("x")[0])
        stage = "correct" if seed % 2 else "launched"
        return {
            "stage": stage,
            "compiled": True,
            "correct": bool(seed % 2),
            "error_kind": "" if seed % 2 else "mismatch",
            "diagnostics": "" if seed % 2 else "output 0 is wrong",
        }

    def close(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


class Buffer:
    def __init__(self, folder, peers, limits=None, concurrency=16):
        self.folder, self.peers, self.concurrency = folder, peers, concurrency
        self.port = reserved_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(limits)

    def start(self, limits=None):
        def limit():
            for what, soft in (limits or {}).items():
                resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))

        # The log goes through a pipe's end, not a file, so that the file-size limit meets the database alone.
        self.process = subprocess.Popen(
            [
                BINARY,
                "serve",
                "buffer",
                "--port",
                str(self.port),
                "--db",
                str(self.folder / "buffer.sqlite"),
                "--router",
                self.peers.url,
                "--evaluator",
                self.peers.url,
                "--tokenizer",
                str(TOKENIZER),
                "--concurrency",
                str(self.concurrency),
                "--grace",
                "5",
            ],
            preexec_fn=limit,  # noqa: PLW1509  # no thread of ours holds a lock here
            stderr=subprocess.DEVNULL,
        )
        wait_until(self.healthy, "the buffer's /health")

    def healthy(self):
        assert self.process.poll() is None, "the buffer ended"
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return call(self.url + "/health")[0] == 200

    def status(self):
        return json.loads(call(self.url + "/v2/status")[1])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.kill()


class Generator:
    def __init__(self, buffer, peers, name):
        self.port = reserved_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [BINARY, "serve", "generator", "--port", str(self.port), "--buffer", buffer.url, "--name", name]
        command += ["--router", peers.url, "--evaluator", peers.url, "--tokenizer", str(TOKENIZER)]
        command += ["--concurrency", "8", "--grace", "5"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def figure(self, name):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            for line in call(self.url + "/metrics")[1].decode().splitlines():
                if line.startswith(f"tritonforge_generator_{name} "):
                    return float(line.split()[1])
        return 0

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def peers():
    peers = Peers()
    yield peers
    peers.close()


def groups(count, samples):
    return {
        "groups": [
            {
                "group_id": f"g{i}",
                "problem_id": f"p{i}",
                "problem_source": "class Model: pass",
                "n_samples": samples,
                "seed": i,
            }
            for i in range(count)
        ],
        "options": {"prompt": "minimal", "max_turns": 2, "max_context": 100000, "sampling": {"max_new_tokens": 20000}},
    }


def trajectories_of(url):
    reply = json.loads(call(url + "/v2/trajectories?limit=1000")[1])
    return {t["id"]: [turn["response_tokens"] for turn in t["turns"]] for t in reply["trajectories"]}


def test_killed_while_writing_loses_and_doubles_nothing(tmp_path, peers):
    count, samples = 30, 6
    judge, killed = peers.evaluate, threading.Event()

    def judge_the_last_group_later(body):  # so that no kill comes after the work is done
        if body["problem"]["id"] == f"p{count - 1}":
            killed.wait(DEADLINE_S)
        return judge(body)

    peers.evaluate = judge_the_last_group_later
    buffer = Buffer(tmp_path, peers)
    try:
        request = groups(count, samples)
        acknowledged = {}
        for kill_at in (20, 60, 120):
            status, text = call(buffer.url + "/v2/rollouts", request)
            assert status == 200, text
            wait_until(lambda least=kill_at: buffer.status()["trajectories"] >= least, f"{kill_at} trajectories")
            acknowledged |= trajectories_of(buffer.url)
            buffer.kill()
            with sqlite3.connect(tmp_path / "buffer.sqlite") as database:
                running = database.execute("SELECT count(*) FROM groups WHERE state = 'running'").fetchone()[0]
                assert running >= 1
            database.close()
            buffer.start()
            after = trajectories_of(buffer.url)
            for identity, tokens in acknowledged.items():
                assert after[identity] == tokens
        killed.set()
        status, granted = call(buffer.url + "/v2/groups/lease", {"lease_id": "one", "count": 20, "timeout_s": 60})
        assert status == 200, granted
        first = call(buffer.url + "/v2/leases/one")[1]
        buffer.kill()
        buffer.start()
        assert call(buffer.url + "/v2/groups/lease", {"lease_id": "one", "count": 20})[1] == granted
        assert call(buffer.url + "/v2/leases/one")[1] == first
        assert call(buffer.url + "/v2/leases/one/commit", {"step": 1})[0] == 200
        buffer.kill()
        buffer.start()
        assert call(buffer.url + "/v2/leases/one")[0] == 409  # its tokens are for nobody any more
        assert call(buffer.url + "/v2/groups/lease", {"lease_id": "one", "count": 20})[1] == granted
        status, second = call(buffer.url + "/v2/groups/lease", {"lease_id": "two", "count": 10, "timeout_s": 60})
        assert status == 200, second
        second = call(buffer.url + "/v2/leases/two")[1]
        given = json.loads(first)["groups"] + json.loads(second)["groups"]
        assert sorted(g["group_id"] for g in given) == sorted(f"g{i}" for i in range(count))
        seen = {}
        for group in given:
            assert [t["id"] for t in group["trajectories"]] == [f"{group['group_id']}.{s}" for s in range(samples)]
            seen |= {t["id"]: [turn["response_tokens"] for turn in t["turns"]] for t in group["trajectories"]}
        for identity, tokens in acknowledged.items():
            assert seen[identity] == tokens
        assert buffer.status()["trajectories"] == count * samples
    finally:
        buffer.close()
    with sqlite3.connect(tmp_path / "buffer.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_full_disk_refuses_and_then_goes_on(tmp_path, peers):
    peers.padding = "x" * 3000
    buffer = Buffer(tmp_path, peers, limits={resource.RLIMIT_FSIZE: 600_000})
    try:
        assert call(buffer.url + "/v2/rollouts", groups(8, 4))[0] == 200
        full = wait_until(lambda: (s := buffer.status())["unwritten"] > 0 and s, "the disk to be full")
        assert "buffer.sqlite" in full["write_error"]
        assert json.loads(call(buffer.url + "/health")[1])["status"] == "yellow"
        big = groups(1, 4)
        big["groups"][0] |= {"group_id": "big", "problem_source": "y" * 700_000}
        status, text = call(buffer.url + "/v2/rollouts", big)
        assert status == 503 and b"buffer.sqlite" in text
        resource.prlimit(buffer.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        status, text = call(buffer.url + "/v2/groups/lease", {"lease_id": "all", "count": 8, "timeout_s": 60})
        assert status == 200, text
        assert all(g["figures"]["trajectories"] == 4 for g in json.loads(text)["groups"])
        wait_until(lambda: buffer.status()["unwritten"] == 0, "everything to be written")
    finally:
        buffer.close()


def lease_of(buffer, count, lease_id):
    status, text = call(buffer.url + "/v2/groups/lease", {"lease_id": lease_id, "count": count, "timeout_s": 60})
    assert status == 200, text
    return json.loads(call(f"{buffer.url}/v2/leases/{lease_id}")[1])


def without_times(lease):
    for group in lease["groups"]:
        for turn in (turn for trajectory in group["trajectories"] for turn in trajectory["turns"]):
            for name in ("generate_s", "evaluate_s", "generate_begun", "evaluate_begun"):
                turn.pop(name, None)
    return {group["group_id"]: group for group in lease["groups"]}


def test_more_clients_than_the_soft_limit_of_files_allows_are_answered(tmp_path, peers):
    buffer = Buffer(tmp_path, peers, limits={resource.RLIMIT_NOFILE: 64})
    with contextlib.ExitStack() as stack:
        stack.callback(buffer.close)
        address = ("127.0.0.1", buffer.port)
        clients = [stack.enter_context(socket.create_connection(address, DEADLINE_S)) for _ in range(200)]
        for client in clients:
            client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        for client in clients:
            assert client.recv(1024).startswith(b"HTTP/1.1 200")


def test_generator_processes_die_and_the_buffer_too_and_nothing_is_lost_or_different(tmp_path, peers):
    count, samples = 24, 8
    (tmp_path / "alone").mkdir()
    alone = Buffer(tmp_path / "alone", peers)
    buffer = Buffer(tmp_path, peers, concurrency=0)
    generators = [Generator(buffer, peers, f"generator-{i}") for i in range(3)]
    try:
        for each in (alone, buffer):
            assert call(each.url + "/v2/rollouts", groups(count, samples))[0] == 200
        chance = random.Random(time.time_ns())
        for kill in range(6):
            least = chance.randrange(kill * 25, kill * 25 + 20)
            wait_until(lambda least=least: buffer.status()["trajectories"] >= least, f"{least} trajectories")
            if kill % 3 == 2:
                buffer.kill()
                buffer.start()
            else:
                victim = chance.randrange(3)
                generators[victim].kill()
                generators[victim] = Generator(buffer, peers, f"generator-{victim}")
        whole = without_times(lease_of(buffer, count, "l"))
        assert whole == without_times(lease_of(alone, count, "l"))
        assert buffer.status()["trajectories"] == count * samples
        # The buffer may have been started again just now, and knows a generator once it asks for work.
        wait_until(lambda: buffer.status()["generators"] == 3, "every generator to be back")
        wait_until(lambda: buffer.status()["running_trajectories"] == 0, "nobody to hold anything")
    finally:
        for process in (alone, buffer, *generators):
            process.kill()


def test_a_generator_that_falls_silent_loses_what_it_holds(tmp_path, peers):
    buffer = Buffer(tmp_path, peers, concurrency=0)
    try:
        assert call(buffer.url + "/v2/rollouts", groups(2, 4))[0] == 200

        def ask(worker, **fields):
            status, text = call(buffer.url + "/v2/work", {"worker": worker, **fields})
            assert status == 200, text
            return [f"{item['group']['group_id']}.{item['sample']}" for item in json.loads(text)["work"]]

        held = ask("a", count=5)
        assert held == ["g0.0", "g0.1", "g0.2", "g0.3", "g1.0"]
        assert ask("b", count=9) == ["g1.1", "g1.2", "g1.3"]
        assert ask("b", count=9, holding=["g1.1", "g1.2", "g1.3"], timeout_s=0.1) == []
        # What it does not name was lost on its way: it is for others.
        assert ask("a", count=0, holding=held[1:]) == []
        assert ask("b", count=9, holding=["g1.1", "g1.2", "g1.3"]) == ["g0.0"]
        # It leaves; another one takes all that it held.
        assert ask("a", leaving=True, holding=held[1:]) == []
        assert sorted(ask("c", count=9)) == held[1:]
        assert buffer.status()["running_trajectories"] == 8
        # Started again, the buffer leaves with each what it says it holds.
        buffer.kill()
        buffer.start()
        assert ask("c", count=0, holding=held[1:]) == []
        assert ask("d", count=9) == ["g0.0", "g1.1", "g1.2", "g1.3"]
        for wrong, message in (
            ({"worker": ""}, "'worker' is empty"),
            ({"worker": "a", "count": -1}, "'count' is -1"),
            ({"worker": "a", "cuont": 1}, "cuont"),
        ):
            status, text = call(buffer.url + "/v2/work", wrong)
            assert status == 400 and message in text.decode(), text
        status, text = call(buffer.url + "/v2/samples", {"id": "g0.0"})
        assert status == 400 and b"problem_id" in text
        nobody = {"id": "x.0", "group_id": "x", "problem_id": "p", "turns": [], "temperature": 1, "reward": 0}
        assert call(buffer.url + "/v2/samples", nobody)[0] == 404
        assert call(buffer.url + "/v2/samples", nobody | {"id": "x.1.5"})[0] == 400
        assert call(buffer.url + "/v2/samples", nobody | {"id": "g0.7", "group_id": "g0"})[0] == 400
    finally:
        buffer.close()


def test_a_generator_that_is_stopped_hands_over_what_was_under_way(tmp_path, peers):
    buffer = Buffer(tmp_path, peers, concurrency=0)
    generator = Generator(buffer, peers, "generator-0")
    try:
        peers.hold.clear()
        asked = groups(1, 4)
        asked["options"]["max_turns"] = 1
        assert call(buffer.url + "/v2/rollouts", asked)[0] == 200
        wait_until(lambda: generator.figure("generating") == 4, "turns under way")
        generator.process.send_signal(signal.SIGTERM)
        peers.hold.set()
        assert generator.process.wait(timeout=DEADLINE_S) == 0
        assert buffer.status()["trajectories"] == 4
    finally:
        generator.kill()
        buffer.close()


def test_much_of_it_is_read_as_an_arrow_stream(tmp_path, peers):
    ipc = pytest.importorskip("pyarrow.ipc")
    buffer = Buffer(tmp_path, peers)
    try:
        assert call(buffer.url + "/v2/rollouts", groups(4, 4))[0] == 200
        lease = lease_of(buffer, 4, "l")
        turns = {
            (trajectory["id"], index): (trajectory, turn)
            for group in lease["groups"]
            for trajectory in group["trajectories"]
            for index, turn in enumerate(trajectory["turns"])
        }
        for path in ("/v2/leases/l", "/v2/trajectories?limit=1000&oldest_first=1"):
            request = urllib.request.Request(
                buffer.url + path, headers={"accept": "application/vnd.apache.arrow.stream"}
            )
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
                assert reply.headers["content-type"] == "application/vnd.apache.arrow.stream"
                rows = ipc.open_stream(reply.read()).read_all().to_pylist()
            assert len(rows) == len(turns)
            for row in rows:
                trajectory, turn = turns[row["trajectory_id"], row["turn"]]
                assert row["advantage"] == trajectory["advantages"][row["turn"]]
                assert row["correct"] == turn["verdict"]["correct"]
                for name in ("prompt_tokens", "response_tokens", "log_probs", "weight_versions", "text", "reward"):
                    assert row[name] == turn[name], name
        after, pages = "", []
        while True:
            page = json.loads(call(f"{buffer.url}/v2/trajectories?limit=5&oldest_first=1&after={after}")[1])
            if not page["trajectories"]:
                break
            pages += [trajectory["id"] for trajectory in page["trajectories"]]
            after = pages[-1]
        assert len(pages) == 16 and set(pages) == {trajectory for trajectory, _ in turns}
    finally:
        buffer.close()


def test_sigterm_ends_cleanly_and_the_rest_is_made_after_a_restart(tmp_path, peers):
    buffer = Buffer(tmp_path, peers)
    try:
        peers.hold.clear()
        assert call(buffer.url + "/v2/rollouts", groups(2, 4))[0] == 200
        wait_until(lambda: buffer.status()["generating"] == 8, "turns under way")
        buffer.process.send_signal(signal.SIGTERM)
        peers.hold.set()
        assert buffer.process.wait(timeout=DEADLINE_S) == 0
        buffer.start()
        assert call(buffer.url + "/v2/groups/lease", {"lease_id": "l", "count": 2, "timeout_s": 60})[0] == 200
    finally:
        buffer.close()


def test_wrong_use_is_one_line(tmp_path):
    run = subprocess.run(
        [
            BINARY,
            "serve",
            "buffer",
            "--db",
            str(tmp_path / "b"),
            "--router",
            "http://x",
            "--evaluator",
            "http://y",
            "--tokenizer",
            str(tmp_path / "none"),
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert len(run.stderr.strip().splitlines()) == 1 and "none" in run.stderr
