"""An unmodified SGLang server, on the CPU: our trainer gives it weights, our bench measures it, our router forwards to
it. TRITONFORGE_SGLANG_PYTHON names the Python of an environment that has it (docs/how-to/external-engine.md); without
it nothing here runs, and nothing is installed."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import pytest

from engine_process import BINARY, ROOT, Engine, engine_process, serving
from test_trainer import Trainer

PYTHON = os.environ.get("TRITONFORGE_SGLANG_PYTHON")
pytestmark = pytest.mark.skipif(not PYTHON, reason="TRITONFORGE_SGLANG_PYTHON names no Python that has SGLang")

MODEL = ROOT / "models/tiny-base"
PROMPTS = [list(range(begin, begin + 40)) for begin in (5, 300, 700)]
GREEDY = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}
LONG = GREEDY | {"max_new_tokens": 100}
FLAGS = ["--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"]
FLAGS += ["--disable-cuda-graph", "--disable-overlap-schedule", "--max-total-tokens", "8192"]


@contextlib.contextmanager
def sglang(model, folder, *flags):
    port = 65536
    while port > 55535:  # its gRPC port is 10000 higher
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    command = [PYTHON, "-m", "sglang.launch_server", "--model-path", str(model), "--port", str(port), *FLAGS, *flags]
    env = os.environ | {"SGLANG_USE_CPU_ENGINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    log = pathlib.Path(folder) / f"sglang-{port}.txt"
    with open(log, "w") as to:
        process = subprocess.Popen(command, env=env, stdout=to, stderr=to, start_new_session=True)
    server = Engine(process, f"http://127.0.0.1:{port}")

    def up():
        assert process.poll() is None, log.read_text()[-3000:]
        return "ready to roll" in log.read_text()

    try:
        server.until(up, "SGLang is up", seconds=180)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("sglang")


@pytest.fixture(scope="module")
def stock(place):
    with sglang(MODEL, place, "--dtype", "float32") as server:
        yield server


@pytest.fixture(scope="module")
def trainer(place):
    with Trainer(place, model=str(MODEL), init_random=False, lr=1e-3) as made:
        yield made


def trained(trainer):
    """One more step's weights."""
    step = trainer.get("/status")["step"] + 1
    sequences = [{"tokens": [5, 6, 7 + step, 8], "loss_mask": [0, 1, 1, 1]}]
    assert trainer.post("/step", {"kind": "sft", "step": step, "sequences": sequences})["step"] == step
    return step


def push(trainer, version, *engines, **how):
    body = {"to": "sglang", "engines": [engine.url for engine in engines], "bucket_bytes": 200000, "version": version}
    return trainer.post("/publish_weights", body | how)


def answers(engine):
    """[(token, log-probability)] of each prompt's greedy answer."""
    metas = [engine.generate(prompt, **GREEDY)["meta_info"] for prompt in PROMPTS]
    return [(token, value) for meta in metas for value, token, *_ in meta["output_token_logprobs"]]


def drawn(engine):
    """Log-probabilities at a temperature, of tokens that top_p leaves no choice of."""
    sampling = {"temperature": 0.7, "top_p": 1e-6, "max_new_tokens": 8, "ignore_eos": True, "sampling_seed": 3}
    meta = engine.generate(PROMPTS[0], **sampling)["meta_info"]
    return [(token, value) for value, token, *_ in meta["output_token_logprobs"]]


def check_alike(theirs, ours, tolerance=2e-3):
    assert [token for token, _ in theirs] == [token for token, _ in ours]
    assert max(abs(a - b) for (_, a), (_, b) in zip(theirs, ours, strict=True)) < tolerance


def test_our_trainer_gives_it_weights_and_it_computes_what_our_engine_does(stock, trainer, tmp_path):
    with engine_process(MODEL) as ours:
        found = [answers(stock)]
        check_alike(found[0], answers(ours))
        for version in (1, 2):
            trained(trainer)
            assert push(trainer, version, stock, ours) == {"version": version}
            assert stock.get("/model_info")["weight_version"] == str(version)
            found.append(answers(stock))
            check_alike(found[-1], answers(ours))
        check_alike(drawn(stock), drawn(ours))
        assert found[0] != found[1] != found[2]

    # The same weights by a disk, to the bit.
    folder = trainer.post("/publish_weights", {"version": 3, "to": str(tmp_path)})["path"]
    reply = stock.post("/update_weights_from_disk", {"model_path": folder, "weight_version": "3"})
    assert reply["success"] and reply["num_paused_requests"] == 0, reply
    assert answers(stock) == found[2]
    assert stock.get("/model_info")["weight_version"] == "3"
    status, reply, _ = stock.request("/update_weights_from_disk", {"model_path": str(tmp_path / "nowhere")})
    assert status == 400 and reply["success"] is False, reply


@pytest.mark.parametrize("mode", ["abort", "in_place", "retract"])
def test_requests_under_way_and_the_server_live_through_a_push(stock, trainer, mode):
    said = []
    body = {"input_ids": PROMPTS[0], "sampling_params": LONG, "return_logprob": True}
    asking = threading.Thread(target=lambda: said.append(stock.request("/generate", body)))
    asking.start()
    stock.until(lambda: stock.get("/v1/loads")["loads"][0]["num_running_reqs"] == 1, "it generates")
    trained(trainer)
    reply = push(trainer, 10, stock, pause=mode)
    if mode == "retract" and reply != {"version": 10}:  # before 0.5.21
        assert reply["status"] == 409 and "Flush cache failed" in reply["error"]["message"], reply
    else:
        assert reply == {"version": 10}
    asking.join(300)
    status, answer, _ = said[0]
    finish = answer["meta_info"]["finish_reason"]["type"]
    assert (status, finish) == (200, "abort" if mode == "abort" else "length"), answer
    # Nothing of older weights is left behind it.
    assert push(trainer, 11, stock) == {"version": 11}
    with engine_process(MODEL) as ours:
        assert push(trainer, 12, stock, ours) == {"version": 12}
        check_alike(answers(stock), answers(ours))


def test_it_takes_float32_weights_as_bfloat16(trainer, place, tmp_path):
    """To the bit what it loads from a folder that has them."""
    with sglang(MODEL, place, "--dtype", "bfloat16") as rounding:
        trained(trainer)
        assert push(trainer, 20, rounding) == {"version": 20}
        pushed = answers(rounding)
        folder = trainer.post("/publish_weights", {"version": 21, "to": str(tmp_path)})["path"]
        assert rounding.post("/update_weights_from_disk", {"model_path": folder})["success"]
        assert answers(rounding) == pushed


def test_our_router_forwards_to_it(stock):
    with serving("router", "--worker", stock.url, "--port", "0") as router:
        router.until(lambda: router.request("/health")[0] == 200, "the router has a worker")
        check_alike(answers(router), answers(stock))


def test_our_bench_measures_it(stock, tmp_path):
    flags = ["--tokenizer", str(MODEL), "--problems", str(ROOT / "problems/level1"), "--limit", "2"]
    flags += ["--prompt", "minimal", "--max-new-tokens", "32", "--samples", "2", "--output", str(tmp_path / "bench")]
    done = subprocess.run(
        [BINARY, "bench", "--model", stock.url, *flags], capture_output=True, text=True, timeout=500, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr + done.stdout
    row = json.loads((tmp_path / "bench/result.json").read_text())["stages"][0]
    assert (row["turns"], row["samples"], row["failed"]) == (1, 4, 0), row
