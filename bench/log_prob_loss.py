"""What options of the engine cost in log-probability: what it says of the tokens that it draws, beside what an engine
without them says of the same tokens.

    python bench/log_prob_loss.py MODEL [--option=--kv-cache-dtype=fp8_e4m3] [--common=...] [--device cuda]
        [--prompts problems/level1] [--texts 16] [--new 128]

`tritonforge serve engine` is started with the options and answers so many chat messages, each the text of a file, with
--new tokens at temperature 1; then one without the options scores the same tokens, as a prompt. Printed over all
tokens: the mean and the largest difference of log-probabilities, its mean with its sign, and the share of tokens whose
probabilities are more than 20 % apart, which is where PPO cuts its ratio. Without an option: what the way of scoring
costs alone.
"""

import argparse
import concurrent.futures
import contextlib
import json
import math
import pathlib
import statistics
import sys

import plain_errors
from engine_load import ROOT, Started


def answer(engine, seed, text, new):
    """Ids of the prompt and of what is drawn, and its log-probabilities."""
    messages = [{"role": "user", "content": text}]
    prompt = engine.ask("POST", "/tokenize", json.dumps({"messages": messages}))["tokens"]
    sampling = {"temperature": 1, "max_new_tokens": new, "ignore_eos": True, "sampling_seed": seed}
    body = {"input_ids": prompt, "return_logprob": True, "sampling_params": sampling}
    reply = engine.ask("POST", "/generate", json.dumps(body))
    return prompt, reply["output_ids"], [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]]


def score(engine, prompt, drawn):
    body = {
        "input_ids": prompt + drawn,
        "return_logprob": True,
        "logprob_start_len": len(prompt) - 1,
        "sampling_params": {"temperature": 0, "max_new_tokens": 1},
    }
    reply = engine.ask("POST", "/generate", json.dumps(body))
    return [entry[0] for entry in reply["meta_info"]["input_token_logprobs"][-len(drawn) :]]


def loss(said, scored):
    off = [ours - theirs for ours, theirs in zip(said, scored, strict=True)]
    return {
        "tokens": len(off),
        "mean": statistics.fmean(map(abs, off)),
        "largest": max(map(abs, off)),
        "signed_mean": statistics.fmean(off),
        "share_beyond_20_percent": statistics.fmean(not 0.8 <= math.exp(x) <= 1.25 for x in off),
    }


def measure(args, texts):
    def on_all(options, ask, items):
        started = Started(args.model, args.device, args.program, [*args.common, *options], True)
        with contextlib.closing(started) as engine, concurrent.futures.ThreadPoolExecutor(len(items)) as pool:
            return list(pool.map(lambda item: ask(engine, *item), items))

    answers = on_all(args.option, answer, [(seed, text, args.new) for seed, text in enumerate(texts)])
    scores = on_all([], score, [(prompt, drawn) for prompt, drawn, _ in answers])
    return loss([x for *_, said in answers for x in said], [x for scored in scores for x in scored])


def main():
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("model")
    command.add_argument("--option", action="append", default=[], help="of serve engine, whose cost is asked for")
    command.add_argument("--common", action="append", default=[], help="of both engines")
    command.add_argument("--device", default="cpu")
    command.add_argument("--program", default=str(ROOT / "build/tritonforge"))
    command.add_argument("--prompts", type=pathlib.Path, default=ROOT / "problems/level1")
    command.add_argument("--texts", type=int, default=16)
    command.add_argument("--new", type=int, default=128)
    args = command.parse_args()
    texts = [path.read_text() for path in sorted(args.prompts.iterdir())[: args.texts]]
    if not texts:
        sys.exit(f"log_prob_loss: no file in {args.prompts}")
    print(json.dumps(measure(args, texts)))


if __name__ == "__main__":
    plain_errors.use()
    main()
