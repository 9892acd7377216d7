"""Every supported ggml type, bit for bit as the gguf package dequantises it."""

import gguf
import numpy as np
import pytest
import safetensors.numpy

from model_helpers import run

HIDDEN, LAYERS, VOCAB = 256, 1, 64
TYPES = ["Q8_0", "Q6_K", "Q5_0", "Q4_K", "Q5_K", "Q4_0", "Q4_1", "Q5_1", "F16", "F32"]


def write_model(path, kind: gguf.GGMLQuantizationType) -> dict[str, np.ndarray]:
    """A qwen2 model whose matrices are random bytes of one type; returns what they must be."""
    rng = np.random.default_rng(kind.value)
    writer = gguf.GGUFWriter(str(path), "qwen2")
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_context_length(128)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    expected = {}

    def matrix(name, ours, rows):
        raw = rng.integers(0, 256, (rows, HIDDEN // block * size), dtype=np.uint8)
        if kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
            numbers = rng.standard_normal((rows, HIDDEN)).astype(np.float16 if kind.name == "F16" else np.float32)
            writer.add_tensor(name, numbers)
            expected[ours] = numbers.astype(np.float32)
        else:
            writer.add_tensor(name, raw, raw_dtype=kind)
            with np.errstate(all="ignore"):  # random scales can be infinite: then both sides must say so
                expected[ours] = gguf.dequantize(raw, kind)

    def vector(name, ours):
        numbers = rng.standard_normal(HIDDEN).astype(np.float32)
        writer.add_tensor(name, numbers)
        expected[ours] = numbers

    matrix("token_embd.weight", "model.embed_tokens.weight", VOCAB)
    vector("output_norm.weight", "model.norm.weight")
    matrix("output.weight", "lm_head.weight", VOCAB)
    layer = "model.layers.0."
    for theirs, ours in (
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
    ):
        matrix(f"blk.0.{theirs}.weight", f"{layer}{ours}.weight", HIDDEN)
        vector(f"blk.0.{theirs}.bias", f"{layer}{ours}.bias")
    for theirs, ours in (
        ("attn_output", "self_attn.o_proj"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ):
        matrix(f"blk.0.{theirs}.weight", f"{layer}{ours}.weight", HIDDEN)
    vector("blk.0.attn_norm.weight", f"{layer}input_layernorm.weight")
    vector("blk.0.ffn_norm.weight", f"{layer}post_attention_layernorm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.mark.parametrize("name", TYPES)
def test_type_equals_the_gguf_package(name, tmp_path):
    expected = write_model(tmp_path / "m.gguf", gguf.GGMLQuantizationType[name])
    done = run("convert", "--model", tmp_path / "m.gguf", "--output", tmp_path / "out", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert "has no tokenizer" in done.stderr
    found = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == expected.keys()
    for tensor, numbers in expected.items():
        np.testing.assert_array_equal(found[tensor], numbers, err_msg=tensor)


def test_type_that_is_not_supported(tmp_path):
    write_model(tmp_path / "m.gguf", gguf.GGMLQuantizationType.IQ4_NL)
    done = run("score", "--model", tmp_path / "m.gguf", stdin='{"ids": [1, 2]}\n')
    assert done.returncode == 2
    assert "m.gguf: tensor 'token_embd.weight' has ggml type IQ4_NL, which is not supported" in done.stderr


@pytest.mark.parametrize("keep", [3, 100, 0.5, 0.99])
def test_truncated(keep, tmp_path):
    path = tmp_path / "m.gguf"
    write_model(path, gguf.GGMLQuantizationType.Q8_0)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    done = run("score", "--model", path, stdin='{"ids": [1, 2]}\n')
    assert done.returncode == 1
    assert "m.gguf" in done.stderr and len(done.stderr.strip().splitlines()) == 1
