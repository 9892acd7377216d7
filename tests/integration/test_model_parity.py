"""Log-probabilities and logits of `tritonforge score` against transformers."""

import json

import pytest
import torch
import transformers

from model_helpers import real_model, reference, run, score, sequences, small_model

torch.set_num_threads(2)

CONFIGS = {
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2-one-kv-head": ("qwen2", dict(num_attention_heads=8, num_key_value_heads=1, rope_theta=1e6)),
    "qwen2-no-groups": ("qwen2", dict(num_key_value_heads=4, rms_norm_eps=1e-5)),
    "qwen3": ("qwen3", {}),
    "qwen3-tied": ("qwen3", dict(tie_word_embeddings=True, rope_theta=1e6)),
    "qwen3-wide-heads": ("qwen3", dict(head_dim=40, num_attention_heads=6, num_key_value_heads=3)),
    "qwen3-bias": ("qwen3", dict(attention_bias=True)),
    "qwen3-odd-sizes": ("qwen3", dict(hidden_size=52, intermediate_size=67, vocab_size=277, num_hidden_layers=5)),
}


def compare(answers, model, batch, bound):
    for ids, answer in zip(batch, answers):
        log_probs, last = reference(model, ids)
        ours = torch.tensor(answer["log_probs"])
        assert ours.shape == log_probs.shape
        torch.testing.assert_close(ours, log_probs, atol=bound, rtol=0)
        torch.testing.assert_close(torch.tensor(answer["logits_last"]), last, atol=bound, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_equals_transformers(name, tmp_path):
    family, overrides = CONFIGS[name]
    model = small_model(family, seed=len(name), **overrides)
    model.save_pretrained(tmp_path)
    batch = sequences(model.config.vocab_size)
    compare(score(tmp_path, batch, logits=True), model, batch, 2e-4)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_sharded_checkpoint(family, tmp_path):
    model = small_model(family)
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    batch = sequences(model.config.vocab_size)
    compare(score(tmp_path, batch, logits=True), model, batch, 2e-4)


@pytest.mark.parametrize("name", ["qwen2", "qwen2-tied", "qwen3", "qwen3-bias"])
def test_bfloat16_is_as_near_to_float32_as_transformers_is(name, tmp_path):
    family, overrides = CONFIGS[name]
    wide = small_model(family, seed=5, **overrides).to(torch.bfloat16)
    wide.save_pretrained(tmp_path)
    exact = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    narrow = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    batch = sequences(wide.config.vocab_size, lengths=(60,) * 8)
    ours, theirs = [], []
    for ids, answer in zip(batch, score(tmp_path, batch, dtype="bfloat16")):
        truth = reference(exact, ids)[0]
        ours.append(torch.tensor(answer["log_probs"]) - truth)
        theirs.append(reference(narrow, ids)[0] - truth)
    ours, theirs = torch.cat(ours), torch.cat(theirs)
    assert ours.square().mean().sqrt() <= 1.5 * theirs.square().mean().sqrt() + 1e-3
    assert ours.abs().max() <= 1.5 * theirs.abs().max() + 1e-2


def test_convert_round_trip(tmp_path):
    model = small_model("qwen3")
    model.save_pretrained(tmp_path / "from")
    done = run("convert", "--model", tmp_path / "from", "--output", tmp_path / "to", "--dtype", "float32", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dtype"] == "float32"
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "to")
    assert again.dtype == torch.float32
    for name, parameter in model.state_dict().items():
        assert torch.equal(parameter, again.state_dict()[name]), name
    batch = sequences(300)
    compare(score(tmp_path / "to", batch, logits=True), model, batch, 2e-4)
    twice = run("convert", "--model", tmp_path / "from", "--output", tmp_path / "to")
    assert twice.returncode == 2 and "exists already" in twice.stderr


def test_real_model_from_gguf():
    path, model = real_model()
    # "import torch\n\ndef relu(x):\n    return" and one random sequence
    batch = [[474, 7834, 271, 750, 40549, 2075, 982, 262, 470], sequences(151643, lengths=(64,))[0]]
    compare(score(path, batch, logits=True), model, batch, 2e-4)
