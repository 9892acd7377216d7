"""Decode tokens/s on the CPU: ours (build/bench/cpu_decode), transformers, and the ratio.

    python bench/cpu_decode_peer.py CPU_DECODE_BINARY MODEL.gguf|FOLDER
        [--tokens 32] [--batches 1,8] [--dtypes float32,bfloat16]

The limit is memory: every step reads all weights once, so tokens/s <= batch * bandwidth / bytes of the weights (while
the batch is small); the bandwidth is measured by a copy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import plain_errors
import torch
from transformers import AutoModelForCausalLM


def bandwidth():
    source = torch.ones(1 << 27, dtype=torch.float32)
    start = time.perf_counter()
    for _ in range(3):
        source.sum()
    return 3 * source.numel() * 4 / (time.perf_counter() - start)


def hugging_face_folder(model, scratch):
    """transformers reads GGUF only with a further package; ours writes what it reads."""
    if pathlib.Path(model).is_dir():
        return model
    program = os.environ.get("TRITONFORGE_BINARY", "./tritonforge")
    subprocess.run(
        [program, "convert", "--model", model, "--output", scratch + "/model", "--dtype", "float32"],
        check=True,
        capture_output=True,
    )
    return scratch + "/model"


def peer(model, batch, tokens):
    prompt = torch.tensor([[100 + (i * 31 + t * 7) % 1000 for t in range(64)] for i in range(batch)])
    options = dict(
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        eos_token_id=None,
        pad_token_id=0,
        attention_mask=torch.ones_like(prompt),
    )
    with torch.inference_mode():
        model.generate(prompt, max_new_tokens=3, **options)
        start = time.perf_counter()
        model.generate(prompt, max_new_tokens=tokens, min_new_tokens=tokens, **options)
        return batch * tokens / (time.perf_counter() - start)


plain_errors.use()
arguments = argparse.ArgumentParser()
arguments.add_argument("binary")
arguments.add_argument("model")
arguments.add_argument("--tokens", type=int, default=32)
arguments.add_argument("--batches", default="1,8")
arguments.add_argument("--dtypes", default="float32,bfloat16")
given = arguments.parse_args()
scratch = tempfile.TemporaryDirectory()
folder = hugging_face_folder(given.model, scratch.name)
speed = bandwidth()
print(
    f"{'dtype':10}{'batch':>6}{'ours':>10}{'peer':>10}{'ratio':>8}{'limit':>10}{'of limit':>10}   "
    f"tokens/s, {torch.get_num_threads()} threads"
)
for dtype in given.dtypes.split(","):
    ours = {}
    for batch in map(int, given.batches.split(",")):
        line = subprocess.run(
            [given.binary, given.model, dtype, str(batch), str(given.tokens)],
            check=True,
            capture_output=True,
            text=True,
        )
        ours[batch] = json.loads(line.stdout)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    for batch, mine in ours.items():
        theirs = peer(model, batch, given.tokens)
        limit = batch * speed / (mine["parameters"] * (4 if dtype == "float32" else 2))
        ours_per_s = mine["tokens_per_s"]
        print(
            f"{dtype:10}{batch:6d}{ours_per_s:10.1f}{theirs:10.1f}{ours_per_s / theirs:8.2f}"
            f"{limit:10.1f}{ours_per_s / limit:10.2f}",
            flush=True,
        )
    del model
