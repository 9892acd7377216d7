"""Broken model files: one line that names file, tensor, expected and found; exit codes 1 and 2."""

import json

import pytest
import safetensors.torch
import torch

from model_helpers import run, small_model


@pytest.fixture
def folder(tmp_path):
    small_model("qwen2").save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def fails(folder, code, *parts, stdin='{"ids": [1, 2]}\n', more=()):
    done = run("score", "--model", folder, *more, stdin=stdin)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_no_model(folder):
    fails(folder / "nothing", 2, "no model at", "nothing")


def test_missing_weight_file(folder):
    (folder / "model.safetensors").unlink()
    fails(folder, 2, "holds neither model.safetensors nor model.safetensors.index.json")


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.999])
def test_truncated_weight_file(folder, keep):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    fails(folder, 1, "model.safetensors", "truncated")


def test_wrong_shape(folder):
    edit_config(folder, intermediate_size=128)
    fails(
        folder,
        1,
        "model.safetensors",
        "model.layers.0.mlp.gate_proj.weight",
        "expected shape [128, 64], found [112, 64]",
    )


def test_missing_tensor(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["model.norm.wieght"] = tensors.pop("model.norm.weight")
    safetensors.torch.save_file(tensors, path)
    fails(folder, 1, "tensor 'model.norm.weight' is missing", "did you mean 'model.norm.wieght'")


def test_integer_weights(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.int32)
    safetensors.torch.save_file(tensors, path)
    fails(folder, 2, "tensor 'model.norm.weight' is Int, expected a floating dtype")


def test_model_type(folder):
    edit_config(folder, model_type="qwen4")
    fails(folder, 2, "model_type 'qwen4' is not supported (did you mean 'qwen")


def test_not_json(folder):
    (folder / "config.json").write_text("{")
    fails(folder, 1, "config.json: not valid JSON")


@pytest.mark.parametrize(
    "line, part",
    [
        ("{", "line 2: not valid JSON"),
        ("[1]", "line 2: expected an object"),
        ("{}", "line 2: field 'ids' is missing"),
        ('{"ids": []}', "line 2: 'ids' is empty"),
        ('{"ids": ["a"]}', "line 2: field 'ids' has the wrong type"),
        ('{"ids": [300]}', "line 2: token id 300 is outside the vocabulary of 300"),
        ('{"ids": [-1]}', "token id -1"),
    ],
)
def test_bad_lines(folder, line, part):
    fails(folder, 2, part, stdin='{"ids": [1, 2]}\n' + line + "\n")


def test_bad_flags(folder):
    fails(folder, 2, "--dtype: unknown value 'float23' (did you mean 'float32'?)", more=("--dtype", "float23"))
    fails(folder, 2, "unknown device 'cuda:x'", more=("--device", "cuda:x"))
    fails(folder, 2, "--devise", "did you mean '--device'", more=("--devise", "cpu"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_gpu(folder):
    fails(folder, 3, "no GPU here", more=("--device", "cuda:0"))
