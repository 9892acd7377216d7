"""A real evaluator server as a child process, and the sources that tests and benchmarks send it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import reserved_port  # beside the folders of tests

ROOT = os.environ.get("TRITONFORGE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BINARY = os.environ.get("TRITONFORGE_BINARY", os.path.join(ROOT, "build", "tritonforge"))

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(4, 100)]

def get_init_inputs():
    return []
"""
ADDITION = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a + b

def get_inputs():
    return [torch.randn(7, 129), torch.randn(7, 129)]
"""
HEADER = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.maximum(a, 0.0) * 2, mask=i < n)

def launch(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 256), )](x, y, x.numel(), B=256)
    return y
"""
HONEST = (
    HEADER
    + """
class ModelNew(nn.Module):
    def forward(self, x):
        return launch(x)
"""
)


def prompts_examples():
    """The worked examples of the prompts, by language."""
    with open(os.path.join(ROOT, "src", "rollout", "prompt_languages.cpp")) as file:
        return dict(re.findall(r'string_view k(\w+) = R"py\((.*?)\)py";', file.read(), re.S))


class Evaluator:
    def __init__(self, *flags, candidate_timeout=60):  # an honest one's on a busy machine; who has no end says less
        self.begin(*flags, candidate_timeout=candidate_timeout)
        self.wait_ready()

    @classmethod
    def starting(cls, *flags, candidate_timeout=60):
        """One of several that start at once; wait_ready() comes later."""
        server = cls.__new__(cls)
        server.begin(*flags, candidate_timeout=candidate_timeout)
        return server

    def begin(self, *flags, candidate_timeout):
        self.port = reserved_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [
                *[BINARY, "serve", "evaluator", "--port", str(self.port)],
                *["--candidate-timeout", str(candidate_timeout), *flags],
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ, TRITONFORGE_ROOT=ROOT, SECRET_KEY="hunter2"),
        )

    def wait_ready(self):
        line = self.process.stdout.readline()
        assert "ready" in line, f"the evaluator did not start: {line!r}"

    def post(self, path, body, timeout_s=400):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"content-type": "application/json", "x-timeout-s": str(timeout_s)},
        )
        with urllib.request.urlopen(request, timeout=420) as reply:
            return json.load(reply)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=120) as reply:
            return json.load(reply)

    def judge(self, candidate, problem=PROBLEM, **more):
        return self.post(
            "/v2/evaluations",
            {"problem": {"id": "p", "source": problem}, "candidate": candidate, "num_correct_trials": 3, **more},
        )

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)


def repeated_sines(rounds):
    """A problem whose work is arithmetic, four million values a time: what a GPU's times are told apart by."""
    return f"""
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        for _ in range({rounds}):
            x = torch.sin(x) * 2
        return x

def get_inputs():
    return [torch.randn(1 << 22)]
"""


def sines_kernel(rounds):
    """Its honest solution: what the cheats at the clock share (corpus/timing), with so many rounds."""
    texts = []
    for name in ("kernels.py", "sound.py"):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "timing", name)) as file:
            texts.append(file.read())
    assert "".join(texts).count("range(4)") == 1
    return "".join(texts).replace("range(4)", f"range({rounds})")
