"""bench/engine_load.py: the loads are asked for as they are named, and its table says what its docstring says."""

import json
import subprocess
import sys

import pytest

import engine_process

BENCH = engine_process.ROOT / "bench/engine_load.py"
sys.path.insert(0, str(BENCH.parent))
import engine_load

SHAPE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 4096,
    "max_position_embeddings": 256,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "eos_token_id": 4095,  # as real models have it: not among the first rank's rows of the vocabulary
}
PLAN = "1x16+6,5x12+4,3*2x20+2..8"


def bench(*arguments):
    done = subprocess.run([sys.executable, BENCH, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("load")
    (folder / "shape.json").write_text(json.dumps(SHAPE))
    bench("model", folder / "model", "--shape", folder / "shape.json")
    return folder / "model"


@pytest.fixture(scope="module")
def rows(model):
    out = model.parent / "ours.jsonl"
    started = ("--model", model, "--device", "cpu", "--program", engine_process.BINARY)
    options = ("--max-running", 4, "--kv-cache-dtype", "fp8_e4m3", "--weight-dtype", "fp8_e4m3")
    bench("ours", out, *started, "--plan", PLAN, "--vocabulary", 4000, *(f"--option={option}" for option in options))
    return out


def test_every_load_is_measured(rows):
    measured = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["load"] for row in measured] == PLAN.split(",")
    one, even, spread = measured
    assert (len(one["alone_s"]), len(one["whole_s"]), one["tokens"]) == (3, 3, 6)
    assert (len(even["alone_s"]), len(even["whole_s"]), even["tokens"]) == (1, 1, 20)
    assert (spread["alone_s"], len(spread["whole_s"])) == ([], 1)
    assert {(row["cache"], row["weights"]) for row in measured} == {("fp8_e4m3", "fp8_e4m3")}
    assert spread["tokens"] == sum(engine_load.Load.of("3*2x20+2..8").lengths())


def test_an_engine_of_several_ranks_is_measured_alike(model, tmp_path):
    started = ("--model", model, "--device", "cpu", "--program", engine_process.BINARY, "--tp", 2)
    bench("ours", tmp_path / "out.jsonl", *started, "--plan", "2x8+3", "--vocabulary", 4000)
    assert json.loads((tmp_path / "out.jsonl").read_text())["tokens"] == 6
    limits = []
    for cards in (1, 2):
        lines = bench("table", tmp_path / "out.jsonl", "--model", model, "--bandwidth", 1e9, "--tp", cards).splitlines()
        limits.append(float(lines[2].split(" | ")[4]))
    assert limits[0] == pytest.approx(2 * limits[1], rel=0.01)


def test_a_server_that_runs_is_asked_alike(model, tmp_path):
    with engine_process.engine_process(model) as engine:
        bench("ours", tmp_path / "out.jsonl", "--url", engine.url, "--plan", "2x8+3", "--vocabulary", 4000)
        assert engine.get("/get_server_info")["generated_tokens"] == 8 * 16 + 2 + 6
    refused = subprocess.run(
        [sys.executable, BENCH, "ours", tmp_path / "no.jsonl", "--url", engine.url, "--plan", "2x8+3"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode != 0


def test_the_table_holds_ours_the_peer_the_limit_and_one_ratio(rows, model, tmp_path):
    slower = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in slower:
        row["alone_s"] = [2 * seconds for seconds in row["alone_s"]]
        row["whole_s"] = [2 * seconds for seconds in row["whole_s"]]
    peer = tmp_path / "peer.jsonl"
    peer.write_text("".join(json.dumps(row) + "\n" for row in slower))
    lines = bench("table", rows, peer, "--model", model, "--bandwidth", 1e9).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == [
        "ms a token",
        "first token, ms",
        "ms a step",
        "prompts, tokens/s",
        "generated tokens/s",
        "s",
        "generated tokens/s",
    ]
    assert all(line.endswith("| 2.00 |") for line in lines[2:]), lines  # of times and of rates alike


def test_the_limit_is_what_a_step_reads():
    shape = json.loads((engine_process.ROOT / "recipes/shapes/qwen3-8b.json").read_text())
    weights, token = engine_load.step_bytes(shape)
    assert weights == 2 * 8190735360 - 2 * 151936 * 4096 - 2 * (36 * (2 * 4096 + 2 * 128) + 4096)  # no table, no norms
    assert token == 36 * 2 * 8 * 128 * 2
    assert engine_load.step_bytes(shape, "fp8_e4m3") == (weights, 36 * 2 * 8 * 129)
    matrices, rows = 36 * 4096 * (4096 * 2 + 1024 * 2 + 3 * 12288), 36 * (6144 + 2 * 4096 + 2 * 12288)
    assert engine_load.step_bytes(shape, weights="fp8_e4m3") == (weights - matrices + 4 * rows, token)
    # Two samples of one prompt of 10, of 2 and 4 new tokens: both in the first step after the first token.
    load = engine_load.Load(1, 2, 10, 2, 4)
    longest, shortest = max(load.lengths()), min(load.lengths())
    expected = sum(weights + token * (10 + step * (1 + (shortest > step))) for step in range(1, longest))
    assert engine_load.decode_seconds(load, shape, 1.0) == expected


def test_what_is_no_load_and_no_vllm_is_said(tmp_path):
    with pytest.raises(SystemExit, match="64x is no load"):
        engine_load.Load.of("64x")
    command = [sys.executable, BENCH, "vllm", tmp_path / "out.jsonl", "--model", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no vLLM in" in done.stderr
