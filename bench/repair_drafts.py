"""Prompt-lookup drafts on repair turns: tokens a step and tokens/s with and without, by the engine itself.

    python bench/repair_drafts.py MODEL --run RUN         the later turns of a run's trajectories, their tokens as they
                                                          were prompted; MODEL: of the run (RUN/models/rl)
    python bench/repair_drafts.py MODEL --problems N      N problems of problems/: MODEL's own first answer, and the
                                                          turn that asks for the whole corrected file
        [--drafts 0,4,8] [--at-once 8] [--turns 32] [--tokens 256] [--device cpu] [--program build/tritonforge]
        [--save FILE | --load FILE]      the prompts alone, for a machine that has no run

Each turn has a seed of its own, the same with every number of drafts. `same`: turns whose tokens are those without
drafts (all on the CPU in float32; in bfloat16 a batch of another shape rounds otherwise).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/integration"))

import plain_errors

import buffer_file

START_SECONDS = 300
REPAIR = """The kernel failed:
AssertionError: the output differs from the reference in 3 of 4096 elements (largest difference 0.25)
Return the whole corrected file."""


class Server:
    def __init__(self, args, drafts):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [args.program, "serve", "engine", "--model", args.model, "--device", args.device]
        command += ["--port", str(self.port), "--draft-tokens", str(drafts), "--max-running", str(args.max_running)]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.get("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the engine did not start: {' '.join(command)}") from None
                time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def request(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        with urllib.request.urlopen(request, timeout=3600) as reply:
            return json.load(reply)

    def get(self, path):
        return self.request(path)


def of_run(run, turns):
    """Evenly over the run: {"input_ids", "tokens": the length of what was answered}."""
    later = [
        {"input_ids": turn["prompt_tokens"], "tokens": len(turn["response_tokens"])}
        for trajectory in buffer_file.read(f"{run}/buffer.sqlite")
        for turn in trajectory["turns"][1:]
    ]
    return [later[i * len(later) // turns] for i in range(min(turns, len(later)))]


def of_problems(args):
    files = sorted(pathlib.Path("problems").rglob("*.py"))[::7][: args.problems]

    def first_turn(file):
        ask = f"Write a Triton kernel for this PyTorch module, as ModelNew, in one file:\n\n{file.read_text()}"
        messages = [{"role": "user", "content": ask}]
        body = {"messages": messages, "max_tokens": args.tokens, "seed": 1}
        answer = server.request("/v1/chat/completions", body)["choices"][0]["message"]
        return {"messages": [*messages, answer, {"role": "user", "content": REPAIR}], "tokens": args.tokens}

    with Server(args, 0) as server, concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        return list(pool.map(first_turn, files))


def answer(server, seed, turn):
    if "messages" in turn:
        body = {"messages": turn["messages"], "max_tokens": turn["tokens"], "seed": seed}
        return server.request("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    sampling = {"temperature": 1.0, "max_new_tokens": turn["tokens"], "sampling_seed": seed, "ignore_eos": True}
    return server.request("/generate", {"input_ids": turn["input_ids"], "sampling_params": sampling})["output_ids"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--run")
    parser.add_argument("--problems", type=int)
    parser.add_argument("--load")
    parser.add_argument("--save")
    parser.add_argument("--drafts", default="0,4,8")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--turns", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--max-running", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--program", default=os.environ.get("TRITONFORGE_BINARY", "build/tritonforge"))
    args = parser.parse_args()
    if args.load:
        turns = json.loads(pathlib.Path(args.load).read_text())[: args.turns]
    else:
        turns = of_run(args.run, args.turns) if args.run else of_problems(args)
    if args.save:
        pathlib.Path(args.save).write_text(json.dumps(turns))
        return

    plain = None
    for drafts in map(int, args.drafts.split(",")):
        with Server(args, drafts) as server, concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            answer(server, 0, {**turns[0], "tokens": 8})  # loads what is loaded at the first step
            before, start = server.get("/get_server_info"), time.monotonic()
            answers = list(pool.map(answer, [server] * len(turns), range(len(turns)), turns))
            seconds, after = time.monotonic() - start, server.get("/get_server_info")
        plain = plain or answers
        counted = ("generated_tokens", "drafted_tokens", "accepted_drafts", "steps", "step_seconds")
        tokens, drafted, accepted, steps, in_steps = (after[name] - before[name] for name in counted)
        print(
            f"drafts {drafts}: {tokens} tokens in {seconds:.2f} s = {tokens / seconds:.1f} tokens/s; a sequence's step "
            f"gives {tokens / (tokens - accepted):.2f} tokens; {accepted} of {drafted} drafts accepted; "
            f"{1e3 * in_steps / steps:.2f} ms a step; same {sum(a == b for a, b in zip(plain, answers))} of "
            f"{len(turns)}",
            flush=True,
        )


if __name__ == "__main__":
    plain_errors.use()
    main()
