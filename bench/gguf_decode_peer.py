"""A GGUF file on the CPU: ours (build/bench/cpu_decode, weights as stored) beside llama.cpp, in turns in one run.

    python bench/gguf_decode_peer.py CPU_DECODE_BINARY MODEL.gguf [--rounds 5] [--tokens 64] [--batches 1,8]
        [--threads CORES]

The peer needs a package of its own: pip install llama-cpp-python==0.3.36 numpy (PEER_PYTHON: the Python that has it, by
default this one). Where the machine cannot run AMX, build it with CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX512=ON
-DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON".
Both answer BATCH prompts of 64 tokens at once. Ours draws at temperature 1 with log-probabilities, the peer takes the
largest logit, which is the cheaper work. The limit: every step reads all weights once, so
tokens/s <= batch * bandwidth / bytes of the file, bandwidth by a sum over a large array on as many threads.
ready: from the start of the process until it could answer (ours: `tritonforge serve engine` and its /health).
Shown: medians of the rounds (min to max); a ratio is of one round's pair.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np
import plain_errors

PROMPT = 64


def peer(model, batch, tokens, prompt, threads):
    """In a process of its own: llama.cpp through its C API."""
    import ctypes

    import llama_cpp as l

    l.llama_backend_init()
    quiet = l.llama_log_callback(lambda level, text, data: None)
    l.llama_log_set(quiet, ctypes.c_void_p(0))
    loaded = l.llama_model_load_from_file(model.encode(), l.llama_model_default_params())
    options = l.llama_context_default_params()
    options.n_ctx = batch * (prompt + tokens + 64)
    options.n_batch = options.n_ubatch = 512
    options.n_seq_max = batch
    options.n_threads = options.n_threads_batch = threads
    context = l.llama_init_from_model(loaded, options)
    vocab = l.llama_n_vocab(l.llama_model_get_vocab(loaded))
    rows = l.llama_batch_init(512, 0, 1)

    def decode(entries):  # (token, position, sequence, wants logits)
        rows.n_tokens = len(entries)
        for i, (token, position, sequence, logits) in enumerate(entries):
            rows.token[i], rows.pos[i], rows.n_seq_id[i], rows.logits[i] = token, position, 1, logits
            rows.seq_id[i][0] = sequence
        if l.llama_decode(context, rows) != 0:
            raise RuntimeError("llama_decode failed")

    def greedy(i):
        logits = l.llama_get_logits_ith(context, i)
        return int(np.ctypeslib.as_array(logits, shape=(vocab,)).argmax())

    def run(count):
        l.llama_memory_clear(l.llama_get_memory(context), True)
        start = time.perf_counter()
        entries = [(100 + (s * 31 + t * 7) % 1000, t, s, t == prompt - 1) for s in range(batch) for t in range(prompt)]
        last = {}
        for at in range(0, len(entries), 512):
            part = entries[at : at + 512]
            decode(part)
            for i, (_, _, s, wants) in enumerate(part):
                if wants:
                    last[s] = greedy(i)
        first = time.perf_counter() - start
        for step in range(1, count):
            decode([(last[s], prompt + step - 1, s, True) for s in range(batch)])
            last = {s: greedy(s) for s in range(batch)}
        seconds = time.perf_counter() - start
        return {
            "prompt_per_s": batch * prompt / first,
            "decode_per_s": batch * (count - 1) / (seconds - first) if count > 1 else 0,
        }

    run(3)
    print(json.dumps(run(tokens)))


def bandwidth(threads):
    array = np.ones(1 << 26, dtype=np.float64)
    parts = np.array_split(array, threads)
    best = 0
    for _ in range(5):
        workers = [threading.Thread(target=part.sum) for part in parts]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, array.nbytes / (time.perf_counter() - start))
    return best


def one_line(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours_ready(program, model):
    import socket
    import urllib.error
    import urllib.request

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = time.perf_counter()
    server = subprocess.Popen(
        [program, "serve", "engine", "--model", model, "--port", str(port)],
        stdout=subprocess.DEVNULL,
    )
    try:
        while True:
            if server.poll() is not None:
                raise RuntimeError("the engine ended")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).read()
                return time.perf_counter() - start
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.005)
    finally:
        server.terminate()
        server.wait()


def peer_ready(python, model):
    start = time.perf_counter()
    code = f"from llama_cpp import Llama; Llama({model!r}, n_ctx=2048, verbose=False)"
    subprocess.run([python, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - start


def shown(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    if sys.argv[1] == "--peer":
        return peer(sys.argv[2], *map(int, sys.argv[3:]))
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    threads = given.threads
    python = os.environ.get("PEER_PYTHON", sys.executable)
    program = os.environ.get("TRITONFORGE_BINARY", "./tritonforge")
    model = str(pathlib.Path(given.model).resolve())
    size = pathlib.Path(model).stat().st_size
    print(f"{threads} threads, {given.rounds} rounds, load {os.getloadavg()[0]:.1f} at the start, {size / 1e6:.0f} MB")

    def row(what, ours, theirs, unit, limit="", faster_is_more=True):
        ratios = [a / b if faster_is_more else b / a for a, b in zip(ours, theirs, strict=True)]
        digits = 1 if faster_is_more else 2
        print(
            f"{what:24}ours {shown(ours, digits):26}peer {shown(theirs, digits):26}{unit:10}{limit:14}"
            f"ratio {shown(ratios, 2)}",
            flush=True,
        )

    ready = [(ours_ready(program, model), peer_ready(python, model)) for _ in range(given.rounds)]
    row("ready", [a for a, _ in ready], [b for _, b in ready], "s", faster_is_more=False)
    for batch in map(int, given.batches.split(",")):
        ours, theirs, speeds = [], [], []
        for _ in range(given.rounds):
            speeds.append(bandwidth(threads))
            sizes = [str(batch), str(given.tokens)]
            ours.append(one_line([given.binary, model, "as_stored", *sizes, str(threads), str(PROMPT)]))
            theirs.append(one_line([python, __file__, "--peer", model, *sizes, str(PROMPT), str(threads)]))
        limit = f"<= {batch * statistics.median(speeds) / size:.0f}"
        for key, what in (("prompt_per_s", f"prompts, batch {batch}"), ("decode_per_s", f"decode, batch {batch}")):
            row(
                what,
                [x[key] for x in ours],
                [x[key] for x in theirs],
                "tokens/s",
                limit if key == "decode_per_s" else "",
            )
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    plain_errors.use()
    main()
