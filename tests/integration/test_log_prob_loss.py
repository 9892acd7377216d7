"""bench/log_prob_loss.py, and what it says of an FP8 cache: what recipes and docs/performance.md state of it."""

import json
import subprocess
import sys

import engine_process

BENCH = engine_process.ROOT / "bench/log_prob_loss.py"


def loss(*options):
    command = [sys.executable, BENCH, engine_process.ROOT / "models/tiny-base", "--program", engine_process.BINARY]
    command += ["--texts", "8", "--new", "100", "--common=--threads=1", *(f"--option={option}" for option in options)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_an_option_nothing_is_lost():
    found = loss()
    assert found["tokens"] == 800
    assert found["largest"] < 1e-4 and found["share_beyond_20_percent"] == 0


def test_what_an_fp8_cache_costs_is_bounded_and_not_nothing():
    found = loss("--kv-cache-dtype=fp8_e4m3")
    assert 1e-4 < found["mean"] < 0.06, found
    assert found["largest"] < 2 and abs(found["signed_mean"]) < 0.03, found
    assert found["share_beyond_20_percent"] < 0.06, found


def test_what_fp8_weights_cost_is_bounded_and_not_nothing():
    found = loss("--weight-dtype=fp8_e4m3")
    assert 1e-4 < found["mean"] < 0.06, found
    assert found["largest"] < 2 and abs(found["signed_mean"]) < 0.03, found
    assert found["share_beyond_20_percent"] < 0.06, found
