"""`tritonforge convert` between Hugging Face's folders and torch_dist checkpoints, which megatron-core itself (in
megatron_model.py) writes and reads."""

import json
import os
import pathlib
import pickle
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from model_helpers import ROOT, run, score, sequences, small_model

HERE = pathlib.Path(__file__).parent
TOKENS = sequences(256, lengths=(2, 9, 40))


def convert(*arguments):
    return run("convert", "--dtype", "float32", "--python", sys.executable, *arguments)


def converted(*arguments):
    done = convert(*arguments)
    assert done.returncode == 0, done.stderr


def weights(folder):
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def saved(folder, family, **overrides):
    model = small_model(family, vocab_size=256, **overrides)
    model.save_pretrained(folder)
    return json.loads((folder / "config.json").read_text())


def megatron(tmp_path, do, folder, config, tp):
    """What megatron-core's model gives for TOKENS: log-probabilities of all but the first."""
    found = subprocess.run([ROOT / "requirements/install", "--megatron"], capture_output=True, text=True, check=True)
    environment = os.environ | {"PYTHONPATH": found.stdout.strip(), "OMP_NUM_THREADS": "1"}
    shape = {"head_dim": config["hidden_size"] // config["num_attention_heads"], "tie_word_embeddings": False} | config
    shape.setdefault("rope_theta", (config.get("rope_parameters") or {}).get("rope_theta"))
    request = {"do": do, "folder": str(folder), "config": shape, "tokens": TOKENS, "tp": tp}
    request["store"] = str(tmp_path / f"{do}-store")
    processes = []
    for rank in range(tp):
        command = [sys.executable, "-W", "ignore", HERE / "megatron_model.py", json.dumps(request | {"rank": rank})]
        with open(tmp_path / f"{do}-{rank}.log", "w") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))
    for rank, process in enumerate(processes):
        said = (tmp_path / f"{do}-{rank}.log").read_text
        assert process.wait(timeout=280) == 0, said()
    return json.loads((tmp_path / f"{do}-0.log").read_text().splitlines()[-1])["log_probs"]


def expect_scores(model, theirs):
    for ours, log_probs in zip(score(model, TOKENS), theirs, strict=True):
        torch.testing.assert_close(torch.tensor(ours["log_probs"]), torch.tensor(log_probs), atol=2e-4, rtol=0)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_what_two_ranks_of_megatron_write_is_read(tmp_path, family):
    config = saved(tmp_path / "like", family, num_attention_heads=8)
    checkpoint = tmp_path / "megatron/iter_0000012"
    checkpoint.mkdir(parents=True)
    theirs = megatron(tmp_path, "write", checkpoint, config, tp=2)
    (tmp_path / "megatron/latest_checkpointed_iteration.txt").write_text("12")
    converted("--model", tmp_path / "megatron", "--like", tmp_path / "like", "--output", tmp_path / "ours")
    expect_scores(tmp_path / "ours", theirs)


# Biases of q, k and v and an embedding that is the head, or norms of heads and a head of its own; one rank and two.
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_what_we_write_is_read_by_megatron(tmp_path, family, tp):
    config = saved(tmp_path / "model", family, tie_word_embeddings=family == "qwen2")
    converted("--model", tmp_path / "model", "--to", "torch_dist", "--output", tmp_path / "out")
    assert (tmp_path / "out/latest_checkpointed_iteration.txt").read_text() == "release"
    expect_scores(tmp_path / "model", megatron(tmp_path, "read", tmp_path / "out/release", config, tp))


@pytest.mark.parametrize(
    "family, overrides",
    [
        ("qwen2", {}),
        ("qwen3", {"tie_word_embeddings": True}),
        ("qwen3", {"attention_bias": True, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 40}),
    ],
)
def test_there_and_back_changes_no_bit(tmp_path, family, overrides):
    saved(tmp_path / "model", family, **overrides)
    converted("--model", tmp_path / "model", "--to", "torch_dist", "--output", tmp_path / "there")
    converted("--model", tmp_path / "there", "--like", tmp_path / "model", "--output", tmp_path / "back")
    before, after = weights(tmp_path / "model"), weights(tmp_path / "back")
    before = {name: tensor for name, tensor in before.items() if name in after or name != "lm_head.weight"}
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name


class Harm:
    def __reduce__(self):
        return os.system, ("touch harmed",)


def test_what_is_wrong_is_said_in_a_line_and_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "model", "qwen3")
    saved(tmp_path / "deeper", "qwen3", num_hidden_layers=4)
    saved(tmp_path / "wider", "qwen3", intermediate_size=128)
    converted("--model", tmp_path / "model", "--to", "torch_dist", "--output", tmp_path / "out")

    def refused(code, said, *arguments):
        done = convert("--model", tmp_path / "out", "--output", tmp_path / "none", *arguments)
        assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not (tmp_path / "none").exists()

    refused(2, "--like names a Hugging Face folder")
    refused(2, "torch_dist checkpoint already", "--to", "torch_dist")
    refused(1, "by config.json", "--like", tmp_path / "wider")
    refused(1, "has 3 layers, 4 by config.json", "--like", tmp_path / "deeper")
    like = ("--like", tmp_path / "model")
    chunks = tmp_path / "out/release/__0_0.distcp"
    whole = chunks.read_bytes()
    chunks.write_bytes(whole[: len(whole) // 2])
    refused(1, "is damaged", *like)
    chunks.write_bytes(whole)
    (tmp_path / "out/release/.metadata").write_bytes(pickle.dumps(Harm()))
    refused(1, "names posix.system, which no checkpoint needs", *like)
    assert not (tmp_path / "harmed").exists()
    (tmp_path / "out/release/.metadata").write_bytes(b"nothing")
    refused(1, "is damaged", *like)
