"""Roles that speak TLS and know each other by their certificates, as processes: an engine, a router before it and a
buffer before both, with a key and certificates from files and from the environment. Needs the program openssl."""

import contextlib
import http.client
import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

import documents
from engine_process import BINARY, ROOT, serving
from front_door import one_prompt_twice, two_items
from test_buffer import Peers, wait_until

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="no program openssl (Debian: openssl)")
KEY = "a-key-of-this-test"


class Certificates:
    """Made as docs/clusters.md says, with other names."""

    def __init__(self, folder):
        self.folder = folder
        text = (ROOT / "docs/clusters.md").read_text()
        (commands,) = [lines for _, _, lines in documents.blocks(text) if lines[0].startswith("openssl ")]
        self.make(commands[0])
        for name in ("engine", "router", "buffer", "client"):
            for command in commands[1:]:
                self.make(command.replace("gpu-2", name).replace("IP:10.0.0.2", "IP:127.0.0.1"))

    def make(self, command):
        subprocess.run(["bash", "-c", command], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def files(self, name):
        return [str(self.folder / file) for file in (f"{name}.pem", f"{name}-key.pem", "ca.pem")]

    def flags(self, name):
        cert, key, ca = self.files(name)
        return ["--tls-cert", cert, "--tls-key", key, "--tls-ca", ca]

    def environment(self, name):
        names = ("TRITONFORGE_TLS_CERT", "TRITONFORGE_TLS_KEY", "TRITONFORGE_TLS_CA")
        return dict(zip(names, self.files(name), strict=True))

    def client(self, name=None):
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if name:
            context.load_cert_chain(*self.files(name)[:2])
        return context


class Evaluator(Peers):
    """The mock, by Python's own TLS, for clients with a certificate alone."""

    def __init__(self, certificates):
        super().__init__()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.folder / "ca.pem"))
        context.load_cert_chain(*certificates.files("client")[:2])
        context.verify_mode = ssl.CERT_REQUIRED
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = self.url.replace("http://", "https://")

    @staticmethod
    def evaluate(body):  # of what an untrained model writes
        return {"stage": "launched", "compiled": True, "correct": False, "error_kind": "mismatch", "diagnostics": ""}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def roles(certificates, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles")
    key = folder / "key"
    key.write_text(KEY + "\n")
    keys = ["--api-key-file", str(key)]
    with contextlib.ExitStack() as stack:
        evaluator = Evaluator(certificates)
        stack.callback(evaluator.close)
        engine = stack.enter_context(
            serving(
                "engine", "--port", "0", "--model", str(ROOT / "models/tiny-base"), "--threads", "1", "--max-context",
                "2048", "--kv-cache-tokens", "8192", *keys, *certificates.flags("engine"),
            )
        )  # fmt: skip
        router = stack.enter_context(
            serving("router", "--port", "0", "--worker", engine.url, *keys, *certificates.flags("router"))
        )  # fmt: skip
        buffer = stack.enter_context(
            serving(
                "buffer", "--port", "0", "--db", str(folder / "buffer.sqlite"), "--router", router.url, "--evaluator",
                evaluator.url, "--tokenizer", str(ROOT / "models/tiny-base"), "--grace", "5",
                env={"TRITONFORGE_API_KEY": KEY} | certificates.environment("buffer"),
            )
        )  # fmt: skip
        yield {"engine": engine, "router": router, "buffer": buffer}


def ask(server, path, body, context, key=KEY):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(server.url + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=120, context=context) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_roles_authenticate_each_other(roles, certificates, tmp_path):
    rollout = one_prompt_twice(tmp_path, max_tokens=32)
    known = certificates.client("client")
    for name, path in (("engine", "/generate"), ("router", "/generate"), ("buffer", "/start_rollout")):
        server = roles[name]
        assert server.url.startswith("https://127.0.0.1:")
        with pytest.raises((urllib.error.URLError, ConnectionError, ssl.SSLError)):
            ask(server, path, rollout, certificates.client())  # no certificate
        assert ask(server, path, rollout, known, key="another")[0] == 401, name
    items = two_items(lambda path, body: ask(roles["buffer"], path, body, known), rollout)
    assert all(item["messages"][2]["content"] for item in items)


def test_a_stream_through_the_router_ends_with_its_client(roles, certificates):
    port = int(roles["router"].url.rsplit(":", 1)[1])
    known = certificates.client("client")

    def aborted():
        return ask(roles["engine"], "/get_server_info", None, known)[1]["aborted_requests"]

    before = aborted()
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=known, timeout=60)
    body = {"text": "x", "stream": True, "sampling_params": {"max_new_tokens": 1900, "ignore_eos": True}}
    connection.request("POST", "/generate", json.dumps(body), {"authorization": f"Bearer {KEY}"})
    reply = connection.getresponse()
    lines = [reply.readline() for _ in range(9)]
    assert lines[0].startswith(b"data: {") and lines[8].startswith(b"data: {")
    assert ask(roles["engine"], "/pause_generation", {"mode": "in_place"}, known)[0] == 200  # it does not end by itself
    connection.sock.close()
    reply.close()
    wait_until(lambda: aborted() == before + 1, "the engine's request is aborted")
    assert ask(roles["engine"], "/continue_generation", {}, known)[0] == 200


def test_what_is_wrong_is_said_in_a_line(roles, certificates, tmp_path):
    def run(*words, **env):
        environment = {name: value for name, value in os.environ.items() if "TRITONFORGE_TLS" not in name}
        command = [BINARY, *words]
        return subprocess.run(command, env=environment | env, capture_output=True, text=True, timeout=120)

    cert, key, ca = certificates.files("router")
    for flags, said in (
        (["--tls-cert", cert], "a certificate and its private key go together: name --tls-key"),
        (["--tls-ca", ca], "a server without --tls-cert and --tls-key speaks no TLS"),
        (["--tls-cert", cert, "--tls-key", certificates.files("engine")[1]], "no private key in PEM"),
        (["--tls-cert", str(tmp_path / "none.pem"), "--tls-key", key], "none.pem: no such file"),
    ):
        done = run("serve", "router", "--port", "0", *flags)
        assert done.returncode == 2 and said in done.stderr, (flags, done.stdout, done.stderr)

    # A router that does not know the engine's authority, and one that has no certificate to show.
    known = ssl.create_default_context(cafile=ca)
    for trust, said in (
        ({}, "is not signed by an authority of this system"),
        ({"SSL_CERT_FILE": ca}, "the server takes only clients with a certificate"),
    ):
        with serving("router", "--port", "0", "--worker", roles["engine"].url, env=trust) as router:

            def why(router=router, said=said):
                with urllib.request.urlopen(router.url + "/workers", timeout=60) as reply:
                    return said in reply.read().decode()

            wait_until(why, said)
    # One that has a certificate of its own to show, and asks nobody for theirs.
    with serving("router", "--port", "0", "--tls-cert", cert, "--tls-key", key, env={"SSL_CERT_FILE": ca}) as router:
        assert ask(router, "/health", None, known)[1]["role"] == "router"
