"""bench/*.py: a path, program or server that is not there is one line on stderr, never a traceback."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))

COMMANDS = [
    ("data_build_peer.py none", "none/tritonforge"),
    ("engine_load.py ours {tmp}/rows.jsonl --url http://127.0.0.1:9", "no server at http://127.0.0.1:9"),
    ("engine_load.py table none/rows.jsonl", "none/rows.jsonl"),
    ("engine_load.py model {tmp}/model --shape none/shape.json", "none/shape.json"),
    ("gguf_decode_peer.py none/decode none/model.gguf", "none/model.gguf"),
    ("kernelbook_like.py none/rows.parquet --rows 1", "none/rows.parquet"),
    ("learning/pool_runs.py none/run", "none/run"),
    ("learning/rl_gain.py none/pairs none/model none/problems {tmp}/out", "none/pairs"),
    ("learning/speed_pairs.py none/pairs.jsonl", "none/pairs.jsonl"),
    ("learning/stage_ablation.py none/pairs none/model none/problems {tmp}/out", "none/pairs"),
    ("log_prob_loss.py none/model --prompts none/prompts", "none/prompts"),
    ("plan_share.py none/pairs.jsonl", "none/pairs.jsonl"),
    ("repair_drafts.py models/tiny-base --load none/load.json", "none/load.json"),
    ("tokenizer_encode_peer.py none", "none/bench/tokenizer_encode"),
    ("trace/steps.py none/trace", "none/trace"),
]


@pytest.mark.parametrize(("command", "named"), COMMANDS, ids=[command.split()[0] for command, _ in COMMANDS])
def test_what_is_not_there_is_one_line(command, named, tmp_path):
    script, *arguments = command.format(tmp=tmp_path).split()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / script, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode not in (0, 2) and "Traceback" not in done.stderr, done.stderr
    assert named in done.stderr.strip().splitlines()[-1], done.stderr
