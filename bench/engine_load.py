"""The engine under load beside vLLM, and beside what the GPU's memory allows.

    python bench/engine_load.py model FOLDER [--shape recipes/shapes/qwen3-8b.json] [--layers N]
                                                    random bf16 weights of a shape, as a Hugging Face folder
    python bench/engine_load.py ours OUT.jsonl --model FOLDER [--device cuda]    starts `tritonforge serve engine`
    python bench/engine_load.py ours OUT.jsonl --url URL                         any server with SGLang's /generate
    python bench/engine_load.py vllm OUT.jsonl --model FOLDER             in a Python that has vLLM: its class LLM
    python bench/engine_load.py table OURS.jsonl [PEER.jsonl] [--model FOLDER --bandwidth BYTES_A_SECOND]
        [--plan w2,w3,w1,w4] [--rounds 1] [--no-log-probs] [--tp 1]

A load is a name below or PROMPTS[*SAMPLES]xPROMPT+NEW[..MOST] itself: so many different prompts of PROMPT random
tokens, SAMPLES requests of each, every one with NEW new tokens or, with MOST, evenly between the two. All requests are
sent at once. Of a load whose answers are equally long the prompts alone (one new token) are timed first, with other
prompts. One request alone is greedy and timed three times after a first one.

A ratio is ours' speed over the peer's: above 1 ours is faster, of times and of rates alike. The limit is the time in
which the card copies what a step must read: the weights without the embedding's table, and keys and values, those of a
prompt once for all its samples. With --model and --bandwidth (`build/bench/kernels step` prints the card's); of --tp
cards, together.
"""

import argparse
import concurrent.futures
import dataclasses
import http.client
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

import plain_errors

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAMED = {
    "w1": "256x1024+1024",
    "w2": "1x1024+256",
    "w3": "64x1024+512",
    "w4": "32*8x2048+256..4096",
}


@dataclasses.dataclass(frozen=True)
class Load:
    prompts: int
    samples: int
    prompt: int
    least: int
    most: int

    @classmethod
    def of(cls, text):
        found = re.fullmatch(r"(\d+)(?:\*(\d+))?x(\d+)\+(\d+)(?:\.\.(\d+))?", NAMED.get(text, text))
        if found is None:
            sys.exit(f"engine_load: {text} is no load: {', '.join(NAMED)} or PROMPTS[*SAMPLES]xPROMPT+NEW[..MOST]")
        prompts, samples, prompt, least, most = (None if part is None else int(part) for part in found.groups())
        return cls(prompts, samples or 1, prompt, least, most or least)

    @property
    def alone(self):
        return self.prompts * self.samples == 1

    @property
    def even(self):
        return self.least == self.most

    def lengths(self):
        """New tokens of each request, the same on every side."""
        draw = random.Random(7)
        return [draw.randint(self.least, self.most) for _ in range(self.prompts * self.samples)]


class Prompts:
    """Different ones for every measurement, the same on every side."""

    def __init__(self, vocabulary):
        self.vocabulary, self.draw = vocabulary, random.Random(1)

    def of(self, load):
        for _ in range(load.prompts):
            ids = [self.draw.randrange(self.vocabulary) for _ in range(load.prompt)]
            yield from [ids] * load.samples


class Server:
    """SGLang's /generate at a URL; a connection and a thread for each request."""

    def __init__(self, url, log_probs):
        where = urllib.parse.urlsplit(url)
        self.host, self.port, self.log_probs = where.hostname, where.port or 80, log_probs

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=3600)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
        except OSError as error:
            raise ConnectionError(f"no server at http://{self.host}:{self.port}: {error}") from error
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        if reply.status != 200:
            raise RuntimeError(f"{path}: {reply.status} {text[:300].decode(errors='replace')}")
        return json.loads(text)

    def generate(self, prompts, lengths, temperature):
        """Seconds until the last answer, and all new tokens."""
        bodies = [
            json.dumps(
                {
                    "input_ids": ids,
                    "return_logprob": self.log_probs,
                    "sampling_params": {"temperature": temperature, "max_new_tokens": new, "ignore_eos": True},
                }
            )
            for ids, new in zip(prompts, lengths, strict=True)
        ]
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            start = time.perf_counter()
            answers = list(pool.map(lambda body: self.ask("POST", "/generate", body), bodies))
            seconds = time.perf_counter() - start
        return seconds, sum(len(answer["output_ids"]) for answer in answers)

    def preemptions(self):
        return self.ask("GET", "/get_server_info").get("preemptions", 0)

    def kept_in(self):
        """What keys and values are kept in, and the layers' matrices."""
        said = self.ask("GET", "/get_server_info")
        return {"cache": said.get("kv_cache_dtype", "auto"), "weights": said.get("weight_dtype", "auto")}


class Started(Server):
    """Our engine, on a free port, for as long as this is open."""

    def __init__(self, model, device, program, options, log_probs):
        command = [program, "serve", "engine", "--model", model, "--device", device, "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(r" on (http://\S+:\d+)", line):
                super().__init__(found[1], log_probs)
                break
        else:
            sys.exit(f"engine_load: the engine did not start: {' '.join(command)}\n{''.join(said)}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def close(self):
        self.process.terminate()
        self.process.wait()


class Vllm:
    """vLLM's own class in this process, with dummy weights: without HTTP."""

    def __init__(self, model, log_probs, tp):
        try:
            import vllm
        except ImportError as error:
            sys.exit(f"engine_load: no vLLM in {sys.executable}: {error}")
        self.sampling, self.log_probs = vllm.SamplingParams, log_probs
        self.engine = vllm.LLM(
            model=model,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=8192,
            gpu_memory_utilization=0.92,
            max_num_seqs=256,
            tensor_parallel_size=tp,
            disable_log_stats=False,
        )

    def generate(self, prompts, lengths, temperature):
        wanted = [
            self.sampling(
                max_tokens=new,
                temperature=temperature,
                ignore_eos=True,
                detokenize=False,
                logprobs=0 if self.log_probs else None,
            )
            for new in lengths
        ]
        asked = [{"prompt_token_ids": ids} for ids in prompts]
        start = time.perf_counter()
        answers = self.engine.generate(asked, wanted, use_tqdm=False)
        seconds = time.perf_counter() - start
        return seconds, sum(len(sample.token_ids) for answer in answers for sample in answer.outputs)

    def preemptions(self):
        counts = {metric.name: getattr(metric, "value", 0) for metric in self.engine.get_metrics()}
        return counts.get("vllm:num_preemptions", 0)

    def kept_in(self):
        return {}


def measure(side, load, prompts, rounds):
    temperature = 0.0 if load.alone else 1.0
    lengths = load.lengths()

    def timed(lengths):
        seconds, tokens = side.generate(list(prompts.of(load)), lengths, temperature)
        if tokens != sum(lengths):
            raise RuntimeError(f"{tokens} tokens came where {sum(lengths)} were asked for")
        return seconds

    if load.alone:
        timed([1])  # the first prompt of a length pays for what is tuned and captured
        rounds = 3
    before = side.preemptions()
    alone = [timed([1] * len(lengths)) for _ in range(rounds if load.even else 0)]
    whole = [timed(lengths) for _ in range(rounds)]
    return {"alone_s": alone, "whole_s": whole, "tokens": sum(lengths), "preemptions": side.preemptions() - before}


def run(side, args):
    prompts = Prompts(args.vocabulary)
    warm = Load(8, 1, min(512, Load.of(args.plan.split(",")[0]).prompt), 16, 16)
    side.generate(list(prompts.of(warm)), warm.lengths(), 1.0)
    with open(args.out, "a") as out:
        for name in args.plan.split(","):
            load = Load.of(name)
            row = {"load": name, "of": NAMED.get(name, name), **side.kept_in()}
            row |= measure(side, load, prompts, args.rounds)
            print(json.dumps(row), flush=True)
            out.write(json.dumps(row) + "\n")
            out.flush()


# ---- The table ----


def step_bytes(config, cache="auto", weights="auto"):
    """What every step reads of the weights, and a token's keys and values in all layers: bf16, or FP8 with scales."""
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    kv_heads, head = config["num_key_value_heads"], config.get("head_dim") or hidden // heads
    layer = hidden * head * (2 * heads + 2 * kv_heads) + 3 * hidden * config["intermediate_size"]
    row = head + 1 if cache == "fp8_e4m3" else 2 * head
    rows = head * (heads + 2 * kv_heads) + 2 * hidden + 2 * config["intermediate_size"]
    matrices = layer + 4 * rows if weights == "fp8_e4m3" else 2 * layer
    return layers * matrices + 2 * hidden * config["vocab_size"], 2 * layers * kv_heads * row


def decode_seconds(load, config, bandwidth, cache="auto", weights="auto"):
    """At least, for all steps after the first token, as long as all requests decode together."""
    weights, token = step_bytes(config, cache, weights)
    lengths, total = load.lengths(), 0
    for step in range(1, max(lengths)):
        live = [i for i, length in enumerate(lengths) if length > step]
        prompts = len({i // load.samples for i in live})
        total += weights + token * (prompts * load.prompt + len(live) * step)
    return total / bandwidth


@dataclasses.dataclass(frozen=True)
class Figure:
    what: str
    values: list
    is_time: bool
    limit: float | None = None

    def text(self):
        middle = number(statistics.median(self.values))
        if len(self.values) == 1:
            return middle
        return f"{middle} ({number(min(self.values))} to {number(max(self.values))})"

    def ratio(self, peer):
        ours, theirs = statistics.median(self.values), statistics.median(peer.values)
        return theirs / ours if self.is_time else ours / theirs


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def figures(row, config=None, bandwidth=None):
    load = Load.of(row["of"])
    kept_in = {key: row.get(key, "auto") for key in ("cache", "weights")}
    limit = decode_seconds(load, config, bandwidth, **kept_in) if bandwidth else None
    whole, tokens = row["whole_s"], row["tokens"]
    if not load.even:
        return [
            Figure("s", whole, True, limit),
            Figure("generated tokens/s", [tokens / seconds for seconds in whole], False),
        ]
    alone = statistics.median(row["alone_s"])
    steps = max(load.least - 1, 1)
    step = Figure(
        "ms a token" if load.alone else "ms a step",
        [1e3 * (seconds - alone) / steps for seconds in whole],
        True,
        limit and 1e3 * limit / steps,
    )
    if load.alone:
        return [step, Figure("first token, ms", [1e3 * seconds for seconds in row["alone_s"]], True)]
    prompts = load.prompts * load.samples * load.prompt
    return [
        step,
        Figure("prompts, tokens/s", [prompts / seconds for seconds in row["alone_s"]], False),
        Figure("generated tokens/s", [tokens / seconds for seconds in whole], False),
    ]


def read_rows(path):
    """The last one of each load."""
    return {row["load"]: row for row in map(json.loads, pathlib.Path(path).read_text().splitlines())}


def table(ours, peer, config=None, bandwidth=None):
    lines = ["| load | | ours | peer | limit | ours' speed over the peer's |", "| --- | --- | --- | --- | --- | --- |"]
    for name, row in ours.items():
        theirs = figures(peer[name]) if name in peer else []
        for i, figure in enumerate(figures(row, config, bandwidth)):
            cells = [name, figure.what, figure.text(), theirs[i].text() if theirs else ""]
            cells.append(number(figure.limit) if figure.limit else "")
            cells.append(f"{figure.ratio(theirs[i]):.2f}" if theirs else "")
            lines.append("| " + " | ".join(cells) + " |")
    for side, rows in (("ours", ours), ("the peer", peer)):
        put_back = {name: row["preemptions"] for name, row in rows.items() if row["preemptions"]}
        if put_back:
            lines.append(f"put back for want of KV cache, {side}: {put_back}")
    return "\n".join(lines)


# ---- Random weights ----


def make_model(folder, shape, layers, tokenizer):
    import torch
    from safetensors.torch import save_file

    config = json.loads(pathlib.Path(shape).read_text())
    config["num_hidden_layers"] = layers or config["num_hidden_layers"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):  # of whichever words: no text is asked for
        shutil.copy(tokenizer / name, folder / name)
    hidden, inner, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    qwen2 = config["model_type"] == "qwen2"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(1)
    files = {}

    def matrix(rows, columns):
        numbers = torch.empty(rows, columns, device=device, dtype=torch.bfloat16)
        return numbers.normal_(0, 0.02, generator=generator).cpu()

    def ones(count):
        return torch.ones(count, dtype=torch.bfloat16)

    def save(name, tensors):
        save_file(tensors, folder / name, metadata={"format": "pt"})
        files.update(dict.fromkeys(tensors, name))

    ends = {"model.embed_tokens.weight": matrix(words, hidden), "model.norm.weight": ones(hidden)}
    if not config["tie_word_embeddings"]:
        ends["lm_head.weight"] = matrix(words, hidden)
    save("model-ends.safetensors", ends)
    for i in range(config["num_hidden_layers"]):
        outs = {"self_attn.q_proj": queries, "self_attn.k_proj": keys, "self_attn.v_proj": keys}
        outs |= {"mlp.gate_proj": inner, "mlp.up_proj": inner}
        layer = {f"{name}.weight": matrix(rows, hidden) for name, rows in outs.items()}
        layer["self_attn.o_proj.weight"] = matrix(hidden, queries)
        layer["mlp.down_proj.weight"] = matrix(hidden, inner)
        layer |= {f"{name}_layernorm.weight": ones(hidden) for name in ("input", "post_attention")}
        if qwen2:
            biased = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
            layer |= {f"{name}.bias": torch.zeros(outs[name], dtype=torch.bfloat16) for name in biased}
        else:
            layer |= {f"self_attn.{name}_norm.weight": ones(head) for name in "qk"}
        save(f"model-{i:02}.safetensors", {f"model.layers.{i}.{name}": tensor for name, tensor in layer.items()})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("ours", "vllm"):
        command = commands.add_parser(name)
        command.add_argument("out")
        command.add_argument("--model")
        command.add_argument("--plan", default="w2,w3,w1,w4")
        command.add_argument("--rounds", type=int, default=1)
        command.add_argument("--no-log-probs", dest="log_probs", action="store_false")
        command.add_argument("--vocabulary", type=int, default=151643, help="random tokens are below this")
        command.add_argument("--tp", type=int, default=1, help="cards for one engine")
        if name == "ours":
            command.add_argument("--url")
            command.add_argument("--device", default="cuda")
            command.add_argument("--program", default=str(ROOT / "build/tritonforge"))
            command.add_argument(
                "--option", action="append", default=[], help="of serve engine: --option=--no-shared-prefix"
            )
    command = commands.add_parser("table")
    command.add_argument("ours")
    command.add_argument("peer", nargs="?")
    command.add_argument("--model", type=pathlib.Path)
    command.add_argument("--bandwidth", type=float)
    command.add_argument("--tp", type=int, default=1)
    command = commands.add_parser("model")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--shape", default=ROOT / "recipes/shapes/qwen3-8b.json")
    command.add_argument("--layers", type=int, default=0, help="of the model; 0 = as many as the shape has")
    command.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "models/tiny-base")
    args = parser.parse_args()

    if args.command == "model":
        make_model(args.folder, args.shape, args.layers, args.tokenizer)
    elif args.command == "table":
        if (args.model is None) != (args.bandwidth is None):
            parser.error("the limit takes --model and --bandwidth")
        config = json.loads((args.model / "config.json").read_text()) if args.model else None
        peer = read_rows(args.peer) if args.peer else {}
        print(table(read_rows(args.ours), peer, config, args.bandwidth and args.bandwidth * args.tp))
    elif args.command == "vllm":
        run(Vllm(args.model, args.log_probs, args.tp), args)
    elif args.url:
        run(Server(args.url, args.log_probs), args)
    else:
        options = [*args.option, "--tp", str(args.tp)]
        engine = Started(args.model, args.device, args.program, options, args.log_probs)
        try:
            run(engine, args)
        finally:
            engine.close()


if __name__ == "__main__":
    plain_errors.use()
    main()
