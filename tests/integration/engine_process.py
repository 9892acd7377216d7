"""A tiny random model folder, and a real engine process over it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
TINY_TOKENIZER = ROOT / "tests/data/tiny-tokenizer"


def make_model(folder, seed=0, family="qwen3"):
    """A random model with the tests' tokenizer; its weights are large enough that greedy choices are clear."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    shape = dict(
        vocab_size=1544,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        rope_theta=1e4,
        tie_word_embeddings=True,
        initializer_range=0.3,
        eos_token_id=None,
        bos_token_id=None,
    )
    if family == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(head_dim=16, **shape))
    else:
        model = Qwen2ForCausalLM(Qwen2Config(**shape))
    model = model.eval().float()
    model.save_pretrained(folder, safe_serialization=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY_TOKENIZER / name, pathlib.Path(folder) / name)
    return model


class Engine:
    def __init__(self, process, url):
        self.process, self.url = process, url

    def request(self, path, body=None, method=None, timeout=120, headers=()):
        """(status, parsed body, headers)"""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} | dict(headers)
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                text, status, headers = reply.read().decode(), reply.status, dict(reply.headers)
        except urllib.error.HTTPError as error:
            text, status, headers = error.read().decode(), error.code, dict(error.headers)
        try:
            return status, json.loads(text), headers
        except json.JSONDecodeError:
            return status, text, headers

    def post(self, path, body):
        status, reply, _ = self.request(path, body)
        assert status == 200, (status, reply)
        return reply

    def get(self, path):
        status, reply, _ = self.request(path)
        assert status == 200, (status, reply)
        return reply

    def generate(self, prompt, **sampling):
        key = "text" if isinstance(prompt, str) else "input_ids"
        return self.post("/generate", {key: prompt, "return_logprob": True, "sampling_params": sampling})

    def events(self, path, body):
        """The data of a stream's events, as they come."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            for line in reply:
                if line.startswith(b"data: "):
                    yield line[6:].decode().strip()

    def until(self, condition, what, seconds=120):
        """Polls a real state of the server; the deadline only bounds a failure."""
        gate = threading.Event()
        for _ in range(20 * seconds):
            if condition():
                return
            gate.wait(0.05)
        raise AssertionError(f"never happened: {what}")


def engine_process(model, *flags):
    return serving(
        "engine", "--model", str(model), "--port", "0", "--threads", "1", "--kv-cache-tokens", "8192", *flags
    )


@contextlib.contextmanager
def serving(role, *flags, cwd=None, env=None):
    """A server of this role, from its ready line to SIGTERM; it must exit with 0. `env` comes to the environment."""
    environment = os.environ | (env or {})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen([BINARY, "serve", role, *flags], cwd=cwd, env=environment, **pipes)
    lines = []
    url = None
    for line in process.stdout:
        lines.append(line)
        if found := re.search(r"on (https?://[^\s:]+:\d+)", line):
            url = found[1]
            break
    if url is None:
        raise AssertionError(f"the {role} did not start: {''.join(lines)}")
    drain = threading.Thread(target=lambda: [lines.append(line) for line in process.stdout], daemon=True)
    drain.start()
    try:
        yield Engine(process, url)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert code == 0, f"exit code {code}: {''.join(lines)}"
