"""OpenAI's and SGLang's own Python clients, unmodified, against a real engine and a router before it: clients/test_*.py
in an environment of their own (requirements/clients.txt)."""

import json
import os
import pathlib
import subprocess

import pytest

from engine_process import ROOT, engine_process, serving

FOLDER = pathlib.Path(__file__).parent / "clients"


@pytest.fixture(scope="module")
def client_python():
    done = subprocess.run([ROOT / "requirements/install", "--clients"], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """models/tiny-base with Qwen3's chat template, which knows tools and thoughts."""
    base, folder = ROOT / "models/tiny-base", tmp_path_factory.mktemp("models") / "tiny-base"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).symlink_to(base / name)
    config = json.loads((base / "tokenizer_config.json").read_text())
    config["chat_template"] = (ROOT / "tests/data/chat-templates/qwen3.jinja").read_text()
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with engine_process(folder) as engine, serving("router", "--port", "0", "--worker", engine.url) as router:
        yield {"engine": engine.url, "router": router.url}


@pytest.mark.parametrize("server", ["engine", "router"])
@pytest.mark.parametrize("client", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_client(client_python, servers, client, server):
    done = subprocess.run(
        [client_python, "-m", "pytest", "-q", "--timeout=120", "-p", "no:cacheprovider", FOLDER / client],
        env={**os.environ, "ENGINE_URL": servers[server]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
