#!/usr/bin/env python3
"""A soak of one engine: full load of mixed requests, clients that hang up, slow readers, weight updates under way.

    bench/soak.py                                   # 30 minutes, 100 updates, models/tiny-base on one CPU thread
    bench/soak.py --minutes 0.2 --updates 6         # as tests/integration/test_soak.py runs it
    bench/soak.py --minutes 3 --updates 10 --device cuda     # the GPU's memory is watched, too

Prints a line a minute and a table at the end: requests by kind with p50 and p99 of their times, the memory of the
engine's process and what is used of its GPU. Exit status 1 with the reasons where a request that its client waited for
was not answered whole (429 is an answer: it is asked again), where blocks of the KV cache or requests are left behind,
or where memory grew after the first fifth of the time."""

import argparse
import contextlib
import dataclasses
import http.client
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import plain_errors

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
GROWTH_MIB = 8  # of the engine's memory after the first fifth: allocators settle


class Lost(Exception):
    """An answer that its client waited for did not come, or not whole."""


@dataclasses.dataclass
class Record:
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    seconds: dict = dataclasses.field(default_factory=dict)  # kind -> of each answer
    first_seconds: list = dataclasses.field(default_factory=list)  # until a stream's first event
    busy: int = 0  # answers 429
    lost: list = dataclasses.field(default_factory=list)
    updates: list = dataclasses.field(default_factory=list)  # seconds each
    memory: list = dataclasses.field(default_factory=list)  # (seconds since the start, MiB)
    gpu_memory: list = dataclasses.field(default_factory=list)  # likewise

    def answered(self, kind, seconds):
        with self.lock:
            self.seconds.setdefault(kind, []).append(seconds)

    def add(self, name, value):
        with self.lock:
            getattr(self, name).append(value)


class Engine:
    def __init__(self, process, address):
        self.process, self.address = process, address

    def connect(self):
        return http.client.HTTPConnection(*self.address, timeout=300)

    def ask(self, path, body=None):
        """(status, text of the reply)"""
        with contextlib.closing(self.connect()) as connection:
            connection.request(
                "GET" if body is None else "POST",
                path,
                None if body is None else json.dumps(body),
                {"content-type": "application/json"},
            )
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def info(self):
        return json.loads(self.ask("/get_server_info")[1])

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def gpu_used_mib(device):
    """Of the whole GPU: who else is on it counts, too."""
    query = [
        "nvidia-smi",
        "--query-gpu=memory.used",
        "--format=csv,noheader,nounits",
        "-i",
        device.partition(":")[2] or "0",
    ]
    return float(subprocess.run(query, capture_output=True, text=True, check=True).stdout)


@contextlib.contextmanager
def serve(options):
    command = [BINARY, "serve", "engine", "--model", options.model, "--port", "0", "--threads", str(options.threads)]
    command += [
        "--device",
        options.device,
        "--max-running",
        "16",
        "--max-queue",
        "16",
        "--kv-cache-tokens",
        "4096",
        "--max-context",
        "1024",
    ]
    with open(options.log, "w+") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            address = None
            deadline = time.monotonic() + 120
            while address is None and process.poll() is None and time.monotonic() < deadline:
                address = re.search(r"on http://([\d.]+):(\d+)", pathlib.Path(options.log).read_text())
                time.sleep(0.05)  # a poll of the log for its ready line
            if address is None:
                sys.exit(f"the engine did not start: {pathlib.Path(options.log).read_text()}")
            yield Engine(process, (address[1], int(address[2])))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(90)
    if process.returncode != 0:
        sys.exit(f"the engine ended with {process.returncode}: {options.log}")


# ---- Requests ----


def prompt_of(rng):
    """A third begin alike, so that prefixes are shared."""
    shared = rng.randrange(3) == 0
    start = [40 + i % 60 for i in range(160)] if shared else []
    return start + [rng.randrange(10, 1000) for _ in range(rng.randrange(4, 300))]


def sampling_of(rng, tokens):
    sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": rng.choice([0, 0.7, 1])}
    if rng.randrange(4) == 0:
        sampling |= {"frequency_penalty": 0.5, "repetition_penalty": 1.1, "logit_bias": {"17": 2}, "top_p": 0.9}
    return sampling


def whole_answer(engine, rng, record):
    tokens = rng.randrange(8, 96)
    body = {"input_ids": prompt_of(rng), "sampling_params": sampling_of(rng, tokens), "return_logprob": True}
    if rng.randrange(8) == 0:
        body |= {"logprob_start_len": 0, "top_logprobs_num": 3}
    status, text = engine.ask("/generate", body)
    if status == 429:
        return False
    if status != 200:
        raise Lost(f"status {status}: {text[:200]}")
    meta = json.loads(text)["meta_info"]
    if meta["completion_tokens"] != tokens or len(meta["output_token_logprobs"]) != tokens:
        raise Lost(f"{meta['completion_tokens']} of {tokens} tokens: {meta['finish_reason']}")
    return True


@contextlib.contextmanager
def stream_of(engine, rng, tokens):
    """An open stream of a chat; None where the engine is busy."""
    body = {"messages": [{"role": "user", "content": "relu " * rng.randrange(1, 60)}], "max_tokens": tokens}
    body |= {"ignore_eos": True, "min_tokens": tokens, "stream": True, "stream_options": {"include_usage": True}}
    with contextlib.closing(engine.connect()) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        reply = connection.getresponse()
        if reply.status not in (200, 429):
            raise Lost(f"status {reply.status}: {reply.read()[:200]}")
        yield reply if reply.status == 200 else None


def check_stream(lines, tokens):
    if not lines or lines[-1] != "[DONE]":
        raise Lost(f"a stream was cut after {len(lines)} events")
    usage = json.loads(lines[-2])["usage"]
    if usage["completion_tokens"] != tokens:
        raise Lost(f"a stream of {usage['completion_tokens']} instead of {tokens} tokens")


def read_stream(engine, rng, record):
    tokens, began = rng.randrange(8, 96), time.monotonic()
    with stream_of(engine, rng, tokens) as reply:
        if reply is None:
            return False
        lines = []
        for line in reply:
            if line.startswith(b"data: "):
                if not lines:
                    record.add("first_seconds", time.monotonic() - began)
                lines.append(line[6:].decode().strip())
        check_stream(lines, tokens)
    return True


def read_slowly(engine, rng, record):
    """Some bytes, a rest, some bytes: the stream is whole all the same."""
    tokens = rng.randrange(64, 160)
    with stream_of(engine, rng, tokens) as reply:
        if reply is None:
            return False
        text = b""
        while piece := reply.read(700):
            text += piece
            time.sleep(0.02)  # this is what a slow reader does
        check_stream([line[6:].strip() for line in text.decode().split("\n") if line.startswith("data: ")], tokens)
    return True


def hang_up(engine, rng, record):
    """Leaves in the middle of its stream, or before the first byte of an answer."""
    if rng.randrange(2) == 0:
        with stream_of(engine, rng, 600) as reply:
            if reply is None:
                return False
            for _ in range(rng.randrange(1, 8)):
                reply.readline()
        return True
    body = json.dumps({"input_ids": prompt_of(rng), "sampling_params": {"max_new_tokens": 600, "ignore_eos": True}})
    with socket.create_connection(engine.address) as connection:
        connection.sendall(f"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    return True


KINDS = {"whole answer": (whole_answer, 20), "stream": (read_stream, 10), "slow reader": (read_slowly, 4)}
KINDS["hangs up"] = (hang_up, 4)


# ---- The soak ----


def client(engine, kind, seed, record, over):
    rng = random.Random(seed)
    ask = KINDS[kind][0]
    while not over.is_set():
        began = time.monotonic()
        try:
            if ask(engine, rng, record):
                record.answered(kind, time.monotonic() - began)
            else:
                with record.lock:
                    record.busy += 1
                over.wait(0.1 * rng.random())  # as Retry-After asks, but sooner
        except (Lost, OSError, http.client.HTTPException, ValueError, KeyError) as error:
            record.add("lost", f"{kind}: {type(error).__name__}: {error}")


def update_weights(engine, options, record, over):
    for version in range(1, options.updates + 1):
        if over.wait(options.minutes * 60 / (options.updates + 1)):
            return
        began = time.monotonic()
        mode = ("in_flight", "wait")[version % 2]
        body = {"model_path": options.model, "weight_version": str(version), "mode": mode}
        status, text = engine.ask("/update_weights_from_disk", body)
        if status != 200:
            record.add("lost", f"update {version} ({mode}): {status} {text[:200]}")
        record.add("updates", time.monotonic() - began)


def watch(engine, options, record, over):
    began, told = time.monotonic(), 0
    while not over.wait(min(2, options.minutes * 60 / 50)):
        now = time.monotonic() - began
        record.add("memory", (now, engine.resident_mib()))
        if options.device != "cpu":
            record.add("gpu_memory", (now, gpu_used_mib(options.device)))
        if now // 60 > told:
            told = now // 60
            answers = sum(map(len, record.seconds.values()))
            print(
                f"{told:3.0f} min: {answers} answers, {record.busy} busy, {len(record.lost)} lost, "
                f"{len(record.updates)} updates, {record.memory[-1][1]:.1f} MiB",
                flush=True,
            )


def settled(engine):
    """The state in which nothing is under way: a poll, its deadline only bounds a failure."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        info = engine.info()
        if info["running"] == info["waiting"] == 0 and info["kv_tokens_free"] == info["kv_cache_tokens"]:
            return info, True
        time.sleep(0.1)
    return info, False


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def growth_of(samples, total):
    """Medians of the second fifth of the time and of the last; what is nearest where a busy machine has none of one."""

    def median(begin, end):
        within = [mib for at, mib in samples if begin <= at < end]
        return statistics.median(within) if within else min(samples, key=lambda sample: abs(sample[0] - begin))[1]

    return median(total / 5, total * 2 / 5), median(total * 4 / 5, math.inf)


def report(options, record, info, clean):
    memories = {"memory": growth_of(record.memory, options.minutes * 60)}
    if record.gpu_memory:
        memories["GPU memory"] = growth_of(record.gpu_memory, options.minutes * 60)
    print(
        f"\n{options.minutes:g} minutes, {len(record.updates)} weight updates (p99 "
        f"{percentile(record.updates, 0.99):.2f} s), {info['steps']} steps, {info['generated_tokens']} tokens, "
        f"{info['preemptions']} preemptions, {info['aborted_requests']} requests aborted for clients that left"
    )
    print("| requests | answers | p50 s | p99 s | longest |\n| --- | --- | --- | --- | --- |")
    for kind, seconds in sorted(record.seconds.items()):
        print(
            f"| {kind} | {len(seconds)} | {percentile(seconds, 0.5):.3f} | {percentile(seconds, 0.99):.3f} | "
            f"{max(seconds):.3f} |"
        )
    first = record.first_seconds
    print(
        f"| a stream's first event | {len(first)} | {percentile(first, 0.5):.3f} | {percentile(first, 0.99):.3f} | "
        f"{max(first):.3f} |"
    )
    print(f"busy (429, asked again): {record.busy}; lost: {len(record.lost)}")
    for name, (early, late) in memories.items():
        print(f"{name}: {early:.1f} MiB in the second fifth, {late:.1f} in the last ({late - early:+.1f})")
    wrong = record.lost[:10]
    if len(record.updates) != options.updates:
        wrong.append(f"{len(record.updates)} of {options.updates} updates")
    if not clean:
        wrong.append(
            f"left behind: {info['running']} running, {info['waiting']} waiting, "
            f"{info['kv_cache_tokens'] - info['kv_tokens_free']} tokens of the KV cache"
        )
    for name, (early, late) in memories.items():
        if late - early > GROWTH_MIB and options.minutes >= 5:
            wrong.append(f"the engine's {name} grew by {late - early:.1f} MiB")
    if missing := set(KINDS) - set(record.seconds):
        wrong.append(f"nothing was answered to: {', '.join(sorted(missing))}")
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--updates", type=int, default=100, help="weight updates, evenly over the time")
    parser.add_argument("--model", default=str(ROOT / "models/tiny-base"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", default="/tmp/soak-engine.log", help="the engine's log")
    options = parser.parse_args()
    record, over = Record(), threading.Event()
    with serve(options) as engine:
        threads = [
            threading.Thread(target=client, args=(engine, kind, f"{options.seed} {kind} {i}", record, over))
            for kind, (_, count) in KINDS.items()
            for i in range(count)
        ]
        updates = threading.Thread(target=update_weights, args=(engine, options, record, over))
        threads.append(threading.Thread(target=watch, args=(engine, options, record, over)))
        for thread in [*threads, updates]:
            thread.start()
        time.sleep(options.minutes * 60)
        updates.join(300)
        over.set()
        for thread in threads:
            thread.join(300)
        info, clean = settled(engine)
        return report(options, record, info, clean)


if __name__ == "__main__":
    plain_errors.use()
    sys.exit(main())
