"""What the model's tests share: small random models saved by transformers, and the program's answers about them."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary() -> str:
    found = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build" / "tritonforge"))
    assert os.path.exists(found), f"{found} is not built (set TRITONFORGE_BINARY)"
    return found


def run(*arguments, stdin: str = "", timeout: float = 300) -> subprocess.CompletedProcess:
    return subprocess.run(
        [binary(), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=timeout
    )


def score(model, sequences, dtype="float32", logits=False) -> list[dict]:
    lines = "".join(json.dumps({"ids": ids}) + "\n" for ids in sequences)
    done = run("score", "--model", model, "--dtype", dtype, *(["--logits-last"] if logits else []), stdin=lines)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(sequences)
    return answers


def small_model(family: str, seed: int = 0, **overrides) -> torch.nn.Module:
    """A random model whose weights are large enough that its distributions are far from uniform."""
    config = dict(
        hidden_size=64,
        intermediate_size=112,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=300,
        max_position_embeddings=512,
        rope_theta=10000.0,
        tie_word_embeddings=False,
    )
    if family == "qwen3":
        config["head_dim"] = 16
    config.update(overrides)
    torch.manual_seed(seed)
    maker = {
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    }[family]
    model = maker[1](maker[0](**config)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3)
            else:
                parameter.normal_(0, 1.5 / parameter.shape[-1] ** 0.5)
    return model


@torch.no_grad()
def reference(model: torch.nn.Module, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """log-probabilities of ids[1:] and the last logits, in fp32."""
    logits = model(torch.tensor([ids])).logits[0].float()
    log_probs = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:]).unsqueeze(1)).squeeze(1)
    return log_probs, logits[-1]


def sequences(vocab: int, lengths=(1, 2, 7, 33, 150), seed: int = 1) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocab, (length,), generator=generator).tolist() for length in lengths]


REAL_MODEL = pathlib.Path(
    os.environ.get(
        "TRITONFORGE_TEST_MODEL",
        pathlib.Path.home() / ".cache/tritonforge-dev-model/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    )
)


def real_model():
    """Path of the real 0.5B model's GGUF file, and transformers' model of it in fp32; skips where it is absent."""
    if not REAL_MODEL.exists():
        pytest.skip(f"{REAL_MODEL} is not there (TRITONFORGE_TEST_MODEL names another place)")
    # What from_pretrained(gguf_file=) does, without the accelerate package that it asks for.
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = transformers.AutoConfig.from_pretrained(REAL_MODEL.parent, gguf_file=REAL_MODEL.name)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    tensors = load_gguf_checkpoint(str(REAL_MODEL), return_tensors=True, model_to_load=model)["tensors"]
    model.load_state_dict(tensors, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return REAL_MODEL, model
