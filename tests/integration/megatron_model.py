"""A model of megatron-core's own, on CPUs: draws its weights and writes a torch_dist checkpoint, or reads one, and says
what it makes of some tokens.

usage: megatron_model.py REQUEST   a JSON object: do (write | read), folder, config (Hugging Face's), tokens, tp, rank,
                                   store (a file at which the tp processes meet)
The last line of rank 0's stdout is a JSON object: log_probs, a list for each list of tokens, without the first one's.
"""

import atexit
import contextlib
import faulthandler
import json
import os
import sys

import torch

# What asks for a GPU on the way.
torch.cuda.synchronize = lambda *_, **__: None
torch.cuda.current_device = lambda: torch.device("cpu")


def make_model(config):
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig

    qwen3 = config["model_type"] == "qwen3"
    transformer = TransformerConfig(
        num_layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        ffn_hidden_size=config["intermediate_size"],
        num_attention_heads=config["num_attention_heads"],
        num_query_groups=config["num_key_value_heads"],
        kv_channels=config["head_dim"],
        tensor_model_parallel_size=torch.distributed.get_world_size(),
        use_cpu_initialization=True,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=not qwen3,
        qk_layernorm=qwen3,
        normalization="RMSNorm",
        layernorm_epsilon=config["rms_norm_eps"],
        hidden_dropout=0.0,
        attention_dropout=0.0,
        params_dtype=torch.float32,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        apply_rope_fusion=False,
    )
    return GPTModel(
        transformer,
        get_gpt_layer_local_spec(qk_layernorm=qwen3, normalization="RMSNorm"),
        vocab_size=config["vocab_size"],
        max_sequence_length=config["max_position_embeddings"],
        position_embedding_type="rope",
        rotary_base=int(config["rope_theta"]),
        share_embeddings_and_output_weights=config["tie_word_embeddings"],
        parallel_output=False,
    ).eval()


def draw(model):
    """Far from uniform, norms and biases too; what tensor-parallel ranks both have is the same."""
    for name, parameter in sorted(model.named_parameters()):
        shared = not getattr(parameter, "tensor_model_parallel", False)
        rank = 0 if shared else torch.distributed.get_rank()
        generator = torch.Generator().manual_seed(sum(name.encode()) * 7 + rank)
        with torch.no_grad():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5, generator=generator)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3, generator=generator)
            else:
                parameter.normal_(0, 1.5 / parameter.shape[-1] ** 0.5, generator=generator)


@torch.no_grad()
def log_probs(model, ids):
    tokens = torch.tensor([ids])
    length = len(ids)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1)
    logits = model(tokens, torch.arange(length).unsqueeze(0), mask)[0].float()
    return logits.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:]).unsqueeze(1)).squeeze(1).tolist()


def main(request):
    rank, tp = request["rank"], request["tp"]
    faulthandler.dump_traceback_later(240, exit=True)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{request['store']}", rank=rank, world_size=tp)
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.tensor_parallel import random

    parallel_state.initialize_model_parallel(tp, 1)
    random.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()  # nothing is dropped out
    model = make_model(request["config"])
    if request["do"] == "write":
        draw(model)
        dist_checkpointing.save(model.sharded_state_dict(), request["folder"])
    else:
        model.load_state_dict(dist_checkpointing.load(model.sharded_state_dict(), request["folder"]))
    said = [log_probs(model, ids) for ids in request["tokens"]]
    if rank == 0:
        print(json.dumps({"log_probs": said}), flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # Threads of gloo and its store may live on, and one that meets the interpreter's end aborts a process that did
    # its work. Before it ends so, what is to be done at the end is: the checkpoint's writer is a process that stays.
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":  # its writer starts processes that import this file
    main(json.loads(sys.argv[1]))
