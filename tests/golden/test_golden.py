"""Text cases against the real program.

golden/NAME.txt: commands.

    $ run recipes/quickstart.yaml --set rl.stepz=3      arguments after `tritonforge`; {tmp} is a fresh folder
    exit 2
    err unknown key 'rl.stepz' .*did you mean 'steps'   a regular expression that stderr must hold; `out` likewise

stderr of a refusal (a case with `err`) must be one line.

golden/ROLE/NAME.txt: requests to one server, in their order. The file begins with what the server is given:

    file run/status.json {"run": "x"}                   a file below {tmp}
    serve dashboard --run {tmp}/run                     the server; --port is added
    include requests                                    the requests of golden/ROLE/requests.part stand here

    > POST /generate {"input_ids": [1, 2]}              a request; lines that begin with two blanks go on with its body
    with origin https://evil.com                        a header of it
    status 200
    is meta_info.prompt_tokens 2                        the JSON value at a path of the reply
    has error.message unknown field                     a regular expression that the value at a path must hold
    header content-type text/event-stream               one that a header must hold
    text role="trainer"                                 one that the whole reply must hold
    events 2 to 4                                       so many server-sent events (who reads late gets several tokens
                                                        in one); paths are looked up in the last JSON
    joined choices.0.delta.content "import torch"       the texts at a path of all events in a row

Each server's routes are those of its OpenAPI document (`tritonforge schema ROLE`), and every reply in JSON fits its
schema there, without a field beside it.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", HERE.parents[1]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build" / "tritonforge"))

sys.path.insert(0, str(HERE.parent))
import schemas  # beside the folders of tests, as ports is
from ports import reserved_port


def blocks_of(text, sign):
    """Each block's lines without comments; a block begins with `sign`."""
    for block in re.split(rf"\n(?={re.escape(sign)} )", "\n" + text):
        lines = [line for line in block.strip().splitlines() if line and not line.startswith("#")]
        if lines and lines[0].startswith(sign + " "):
            yield lines


def commands():
    for path in sorted(HERE.glob("*.txt")):
        for lines in blocks_of(path.read_text(), "$"):
            yield pytest.param(lines[0][2:], lines[1:], id=f"{path.stem}: {lines[0][2:]}")


@pytest.mark.parametrize("command, expectations", list(commands()))
def test_command(command, expectations, tmp_path):
    arguments = [part.replace("{tmp}", str(tmp_path)) for part in shlex.split(command)]
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "truncated.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    result = subprocess.run(
        [BINARY, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    for expectation in expectations:
        kind, _, value = expectation.partition(" ")
        if kind == "exit":
            assert result.returncode == int(value), result.stderr
            if any(line.startswith("err ") for line in expectations):
                assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        else:
            text = {"out": result.stdout, "err": result.stderr}[kind]
            assert re.search(value, text), f"no '{value}' in: {text}"


def test_the_recipe_reference_is_current():
    """docs/recipes.md is what `tritonforge run --options` prints."""
    command = [BINARY, "run", "--options"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert (ROOT / "docs" / "recipes.md").read_text() == printed.stdout


class Server:
    """One role as a child process, from the first lines of its file."""

    def __init__(self, path, folder):
        head = path.read_text().split("\n>")[0].splitlines()
        for line in head:
            if line.startswith("file "):
                _, name, content = line.split(" ", 2)
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("a") as file:
                    file.write(content.replace("{tmp}", str(folder)).replace("{root}", str(ROOT)) + "\n")
        serve = next(line for line in head if line.startswith("serve "))
        self.port = reserved_port()
        arguments = shlex.split(serve.replace("{tmp}", str(folder)))
        self.api = schemas.Api(arguments[1])
        role = arguments[arguments.index("--role") + 1] if "--role" in arguments else "all"
        self.log = folder / "log.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [BINARY, *arguments, "--port", str(self.port)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=dict(os.environ, TRITONFORGE_ROOT=str(ROOT)),
            )
        for _ in range(3000):
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            try:
                self.send("GET", "/health", "")
                break
            except OSError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.1)
        else:
            raise AssertionError(f"`{serve}` did not come up: {self.log.read_text()[-2000:]}")
        routes = json.loads(self.send("GET", "/routes", "")[2])["routes"]
        self.api.has({(route["method"], route["path"]) for route in routes}, role)

    def send(self, method, target, body, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, target, body or None, {"content-type": "application/json", **dict(headers)})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode()
        finally:
            connection.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log.read_text()[-2000:]


def requests():
    for path in sorted(HERE.glob("*/*.txt")):
        text = path.read_text()
        if included := re.search(r"^include (\w+)$", text, re.MULTILINE):
            text = text.replace(included[0], (path.parent / f"{included[1]}.part").read_text())
        name = path.relative_to(HERE).with_suffix("")
        for number, lines in enumerate(blocks_of(text, ">"), 1):
            yield pytest.param(path, lines, id=f"{name}: {number} {' '.join(lines[0].split()[1:3])}")


@pytest.fixture(scope="module")
def server_of(tmp_path_factory):
    """server_of(path) -> the server of a file, from the file's first request until the first of another file."""
    running = {}

    def get(path):
        if path not in running:
            while running:
                running.popitem()[1].stop()
            running[path] = Server(path, tmp_path_factory.mktemp("golden"))
        return running[path]

    yield get
    for server in running.values():
        server.stop()


def value_at(json_value, path):
    for part in path.split("."):
        json_value = json_value[int(part) if isinstance(json_value, list) else part]
    return json_value


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("path, lines", list(requests()))
def test_request(server_of, path, lines):
    server = server_of(path)
    method, target, body = (lines[0][2:] + " ").split(" ", 2)
    expectations, given = [], {}
    for line in lines[1:]:
        if line.startswith("  "):
            body += line
        elif line.startswith("with "):
            _, name, value = line.split(" ", 2)
            given[name] = value
        else:
            expectations.append(line)
    status, headers, text = server.send(method, target, body.strip(), given)
    events = re.findall(r"^data: (.*)$", text, re.MULTILINE)
    documents = [event for event in events if event != "[DONE]"] or [text]
    if headers.get("content-type") == "application/json":
        server.api.fits(method, target, status, text)
    assert any(line.startswith("status ") for line in expectations), "a request without an expected status"
    for expectation in expectations:
        kind, _, value = expectation.partition(" ")
        if kind == "status":
            assert status == int(value), text
        elif kind == "events":
            least, _, most = value.partition(" to ")
            assert int(least) <= len(events) <= int(most or least), text
        elif kind == "text":
            assert re.search(value, text), f"no '{value}' in: {text}"
        elif kind == "header":
            name, _, pattern = value.partition(" ")
            assert re.search(pattern, headers.get(name, "")), dict(headers)
        elif kind in ("is", "has"):
            path, _, expected = value.partition(" ")
            found = value_at(json.loads(documents[-1]), path)
            if kind == "is":
                assert found == json.loads(expected), f"{path}: {as_text(found)}"
            else:
                assert re.search(expected, as_text(found)), f"{path}: {as_text(found)}"
        elif kind == "joined":
            path, _, expected = value.partition(" ")
            found = "".join(value_at(json.loads(document), path) for document in documents)
            assert found == json.loads(expected), text
        else:
            raise AssertionError(f"unknown expectation '{expectation}'")
