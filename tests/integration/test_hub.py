"""`tritonforge model pull | list | check` against a stand-in of the Hugging Face hub on this machine: its own library
fetches, what came is compared with the hub's checksums, a download that was cut off goes on, and a recipe finds the
model by its name."""

import hashlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = "model.safetensors"


class Hub(http.server.BaseHTTPRequestHandler):
    """The endpoints that the library asks for one repository of each kind; `state` says how it misbehaves."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        state = self.server.state
        state["asked"].append((self.command, self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        path = self.path.split("?")[0]
        kind = "datasets" if path.startswith(("/api/datasets/", "/datasets/")) else "models"
        name = "someone/pairs" if kind == "datasets" else "someone/tiny"
        files = state[kind]
        if path in (
            f"/api/{kind}/{name}",
            f"/api/{kind}/{name}/revision/main",
            f"/api/{kind}/{name}/revision/{COMMIT}",
        ):
            return self.reply(
                json.dumps({"id": name, "sha": COMMIT, "siblings": [entry(n, d) for n, d in files.items()]})
            )
        prefix = f"/datasets/{name}" if kind == "datasets" else f"/{name}"
        found = re.fullmatch(re.escape(prefix) + rf"/resolve/(?:main|{COMMIT})/(.+)", path)
        if not found or found[1] not in files:
            return self.reply('{"error": "Repository not found"}', 404, {"X-Error-Code": "RepoNotFound"})
        data = files[found[1]]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{identity(found[1], data)}"', "Accept-Ranges": "bytes"}
        if not body:
            return self.reply(data, 200, headers, body=False)
        if found[1] in state["damaged"]:
            data = bytes([data[0] ^ 1]) + data[1:]
        begin = 0
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            begin = int(wanted[1])
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        cut = state["cut"].pop(found[1], None)
        return self.reply(data[begin:], 206 if begin else 200, headers, cut=cut)

    def reply(self, data, code=200, headers=None, body=True, cut=None):
        data = data.encode() if isinstance(data, str) else data
        self.send_response(code)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data[:cut])
        if cut is not None:
            self.close_connection = True


def identity(name, data):
    """What the hub names a file's content by: SHA-256 where it is large, git's name where it is not."""
    if name == LARGE:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(name, data):
    item = {"rfilename": name, "size": len(data)}
    if name == LARGE:
        item["lfs"] = {"sha256": identity(name, data), "size": len(data), "pointerSize": 130}
    else:
        item["blobId"] = identity(name, data)
    return item


@pytest.fixture
def hub():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    model = {path.name: path.read_bytes() for path in sorted((ROOT / "models/tiny-base").iterdir())}
    pairs = (ROOT / "problems/quickstart/pairs.jsonl").read_bytes()
    server.state = {
        "models": {**model, "pytorch_model.bin": b"runs code when it is read"},
        "datasets": {"train/pairs.jsonl": pairs},
        "asked": [],
        "cut": {},
        "damaged": set(),
    }
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def tritonforge(*arguments, hub, home, code=0, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment.update(HF_HOME=str(home), HF_HUB_DISABLE_XET="1", TRITONFORGE_ROOT=str(ROOT), **variables)
    environment["HF_HUB_DISABLE_TELEMETRY"] = "1"
    environment["HF_ENDPOINT"] = f"http://127.0.0.1:{hub.server_address[1]}"
    result = subprocess.run(
        [BINARY, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


def test_a_model_is_pulled_listed_and_checked(hub, tmp_path):
    result = tritonforge("model", "pull", "someone/tiny", "--json", hub=hub, home=tmp_path, HF_TOKEN="hf_secret")
    said = json.loads(result.stdout)
    assert said["commit"] == COMMIT
    snapshot = pathlib.Path(said["snapshot"])
    for name, data in hub.state["models"].items():
        if name.endswith(".bin"):
            assert not (snapshot / name).exists()  # forms that run code are left there
        else:
            assert (snapshot / name).read_bytes() == data
    assert {key for *_, key in hub.state["asked"]} == {"Bearer hf_secret"}
    rows = json.loads(tritonforge("model", "list", "--json", hub=hub, home=tmp_path).stdout)
    mine = next(row for row in rows if row["name"] == "someone/tiny")
    assert mine["complete"] and mine["path"] == str(snapshot)
    checked = json.loads(tritonforge("model", "check", "someone/tiny", "--json", hub=hub, home=tmp_path).stdout)
    assert checked["parameters"] > 1e5 and checked["files"][0]["file"] == LARGE
    assert "Say yes." in checked["opening"]
    memory = checked["memory_gib"]
    assert memory["training_bfloat16_one_gpu"] > memory["weights_float32"] == 2 * memory["weights_bfloat16"]


def test_a_download_that_was_cut_off_goes_on(hub, tmp_path):
    whole = hub.state["models"][LARGE]
    hub.state["cut"][LARGE] = len(whole) // 2
    cut = tritonforge("model", "pull", "someone/tiny", hub=hub, home=tmp_path, code=1)
    assert "what came is kept, and the same command goes on with it" in cut.stderr
    tritonforge("model", "pull", "someone/tiny", hub=hub, home=tmp_path)
    ranges = [wanted for command, path, wanted, _ in hub.state["asked"] if command == "GET" and path.endswith(LARGE)]
    assert ranges[-1] == f"bytes={(len(whole) // 2 >> 20) << 20}-", ranges  # whole pieces of 1 MiB are kept


def test_a_file_with_another_checksum_is_not_kept(hub, tmp_path):
    hub.state["damaged"].add(LARGE)
    result = tritonforge("model", "pull", "someone/tiny", hub=hub, home=tmp_path, code=1)
    assert f"{LARGE} of someone/tiny came with another checksum" in result.stderr
    hub.state["damaged"].clear()
    tritonforge("model", "pull", "someone/tiny", hub=hub, home=tmp_path)


def test_recipes_name_models_and_data_by_their_hub_names(hub, tmp_path):
    recipe = ["run", "recipes/quickstart.yaml", "--dry-run", "--set", "model.path=someone/tiny"]
    recipe += ["--set", "data.pairs=datasets/someone/pairs/train/pairs.jsonl"]
    missing = tritonforge(*recipe, hub=hub, home=tmp_path, code=2)
    assert "model.path: no such folder or file: someone/tiny" in missing.stderr
    assert "tritonforge model pull someone/tiny" in missing.stderr
    tritonforge("model", "pull", "someone/tiny", hub=hub, home=tmp_path)
    missing = tritonforge(*recipe, hub=hub, home=tmp_path, code=2)
    assert "tritonforge model pull datasets/someone/pairs/train/pairs.jsonl" in missing.stderr
    url = f"http://127.0.0.1:{hub.server_address[1]}/datasets/someone/pairs"
    tritonforge("model", "pull", url, hub=hub, home=tmp_path)
    tritonforge(*recipe, hub=hub, home=tmp_path)


def test_what_is_not_there_is_said_in_one_line(hub, tmp_path):
    result = tritonforge("model", "pull", "someone/other", hub=hub, home=tmp_path, code=2)
    assert result.stderr.splitlines()[-1].startswith("tritonforge: the hub has no model someone/other")
    result = tritonforge("model", "pull", "someone/tiny/none.gguf", hub=hub, home=tmp_path, code=1)
    assert "has no file none.gguf" in result.stderr
    result = tritonforge("model", "pull", "no-name", hub=hub, home=tmp_path, code=2)
    assert "'no-name' is no name on the hub" in result.stderr
    result = tritonforge("model", "pull", "http://127.0.0.1:9/someone/tiny", hub=hub, home=tmp_path, code=1)
    assert "http://127.0.0.1:9" in result.stderr and "goes on with it" in result.stderr
