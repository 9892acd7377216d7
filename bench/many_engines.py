"""What router, buffer and synchroniser of weights take for 10, 100 and 1,000 engines, with mock engines in their place.

needs wrk (Debian), build/bench/mock_engine, mock_generators and weight_fanout, the built binary (TRITONFORGE_BINARY or
./build/tritonforge)
usage: bench/many_engines.py [--build build] [--parts router,buffer,weights] [--engines 10,100,1000] [--rounds 3]

router   wrk against engines that answer at once from one process. Of each number: seconds until every engine is green,
         memory, CPU seconds a second of looking after their health (every 5 s) while nobody asks for anything, the
         median of a request beside an engine's own, requests a second of --connections connections with CPU of each,
         and seconds of a request that goes to all of them.
buffer   what engines of --places sequences each, all at work, and a turn of a minute bring to `serve buffer`: generator
         processes of 4,096 places that hold all of it, ask for work and deliver; beside them a trainer that leases
         --step groups (a quarter of a group for each engine, unless given) by name and fetches them. Four loads:
         trajectories of three turns; of one turn; as many as end in 15 s at once; and a buffer that is killed (-9)
         and started again with all of that under way.
weights  an update through the orchestrator's own code to engines in four processes: of checksums alone, then of a file
         of --mib that each of them fetches; and the same with a hundredth of them killed (-9) half way.
"""

import argparse
import contextlib
import http.client
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import plain_errors
from router_peer import ROOT, SCRIPT, Side, cpu_seconds, free_port, spread

PLACES_OF_A_GENERATOR = 4096


def ask(port, method, path, body=None, timeout=120):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request(method, path, json.dumps(body) if body is not None else None)
    reply = connection.getresponse()
    return reply.status, reply.read()


def status_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return dict(line.split(":", 1) for line in status)


def memory_mib(pid, what="VmRSS"):
    return int(status_of(pid)[what].split()[0]) / 1024


def green(port):
    try:
        _, text = ask(port, "GET", "/health")
    except OSError:
        return 0
    found = re.search(r"(\d+) green", json.loads(text)["detail"])
    return int(found[1]) if found else 0


def start(stack, command, **more):
    process = subprocess.Popen(command, **more)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def program(options, name):
    return os.path.join(options.build, "bench", name)


def mock_engines(options, stack, count):
    """A process of so many engines, and their addresses."""
    mock = start(stack, [program(options, "mock_engine"), str(count), "256"], stdout=subprocess.PIPE, text=True)
    return mock, [f"http://127.0.0.1:{port}" for port in mock.stdout.readline().split()]


def measure_router(options, count):
    for policy in options.policies.split(","):
        with contextlib.ExitStack() as stack:
            measure_policy(options, stack, count, policy)


def measure_policy(options, stack, count, policy):
    script = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "generate.lua")
    with open(script, "w") as out:
        out.write(SCRIPT % options.bytes)
    _, urls = mock_engines(options, stack, count)
    port = free_port()
    workers = [part for url in urls for part in ("--worker", url)]
    router = start(
        stack,
        [options.binary, "serve", "router", "--port", str(port), "--policy", policy, *workers],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    began = time.monotonic()
    while green(port) < count:
        if router.poll() is not None or time.monotonic() - began > 120:
            sys.exit(f"{count} engines: {green(port)} are green after {time.monotonic() - began:.0f} s")
        time.sleep(0.02)
    ready = time.monotonic() - began
    before = cpu_seconds(router.pid)
    time.sleep(options.idle)
    idle = (cpu_seconds(router.pid) - before) / options.idle
    engine, ours = Side("engine", int(urls[0].rsplit(":", 1)[1])), Side("tritonforge", port, router)
    for connections in (1, options.connections):
        for _ in range(options.rounds):
            for side in (engine, ours):
                side.load(script, connections, options.seconds)
    to_all = []
    for _ in range(options.rounds):
        began = time.monotonic()
        status, text = ask(port, "POST", "/flush_cache", {})
        if status != 200:
            sys.exit(f"/flush_cache of {count} engines: {status} {text[:200]}")
        to_all.append(1e3 * (time.monotonic() - began))
    added = [a - b for a, b in zip(ours.medians, engine.medians)]
    print(
        f"{policy:<14}{count:>6} engines: green after {ready:.2f} s, {memory_mib(router.pid):.0f} MiB, "
        f"{100 * idle:.1f} % of a core for their health; adds {spread(added)} us, "
        f"{spread(ours.rates)} requests/s at {spread(ours.cpu, '{:.1f}')} us of CPU; "
        f"to all of them {spread(to_all, '{:.1f}')} ms",
        flush=True,
    )


class Watch:
    """The most descriptors that a process had, and the longest that its /health took, until the block ends."""

    def __init__(self, pid, port):
        self.pid, self.port, self.files, self.health = pid, port, 0, 0.0

    def __enter__(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def look(self):
        while not self.over.wait(0.05):
            began = time.monotonic()
            with contextlib.suppress(OSError):
                self.files = max(self.files, len(os.listdir(f"/proc/{self.pid}/fd")))
                ask(self.port, "GET", "/health")
                self.health = max(self.health, time.monotonic() - began)


def serve_buffer(options, stack, folder, port):
    database = os.path.join(folder, "buffer.sqlite")
    nobody = ["--router", "http://127.0.0.1:1", "--evaluator", "http://127.0.0.1:1"]
    buffer = start(
        stack,
        [options.binary, "serve", "buffer", "--port", str(port), "--db", database, *nobody, "--concurrency", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while True:
        with contextlib.suppress(OSError):
            if ask(port, "GET", "/health")[0] == 200:
                return buffer
        if buffer.poll() is not None:
            sys.exit(f"the buffer ended with {buffer.returncode}")
        time.sleep(0.05)


def measure_buffer(options, count):
    turns = count * options.places / 60  # a second
    loads = options.loads.split(",")
    for load, rate, burst, killed in (
        ("three turns", turns / 3, 0, False),
        ("one turn", turns, 0, False),
        ("15 s at once", turns / 3, round(15 * turns / 3), False),
        ("killed", turns / 3, 0, True),
    ):
        if load not in loads:
            continue
        with contextlib.ExitStack() as stack:
            measure_load(options, stack, count, load, rate, burst, killed)


def measure_load(options, stack, count, load, rate, burst, killed):
    processes = math.ceil(count * options.places / PLACES_OF_A_GENERATOR)
    places = count * options.places // processes // 8 * 8
    step = options.step or max(8, count // 4)
    folder, port = stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)), free_port()
    buffer = serve_buffer(options, stack, folder, port)
    seconds = options.seconds + (20 if killed else 0)  # a process is heard of every 10 s
    arguments = [f"http://127.0.0.1:{port}", processes, places, rate, seconds, burst, step]
    generators = start(
        stack, [program(options, "mock_generators"), *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    claimed = float(generators.stdout.readline().split()[1])
    back = at_once = ""
    with Watch(buffer.pid, port) as watch:
        before, began = cpu_seconds(buffer.pid), time.monotonic()
        if killed:
            time.sleep(1)
            buffer.kill()
            buffer.wait()
            died = time.monotonic()
            buffer = serve_buffer(options, stack, folder, port)
            watch.pid, before = buffer.pid, 0
            while json.loads(ask(port, "GET", "/v2/status")[1])["running_trajectories"] < 0.98 * processes * places:
                if generators.poll() is not None:
                    sys.exit("the generators ended before the buffer knew of them again")
                time.sleep(0.05)
            back = f"; knew of them again after {time.monotonic() - died:.1f} s"
        figures = json.loads(generators.stdout.readline())
        cpu = (cpu_seconds(buffer.pid) - before) / (time.monotonic() - began)
    if burst:
        at_once = f" after {burst} in {figures['burst_s']:.1f} s"
    shown = {
        name: "none" if figures[name] is None else "{:.0f} / {:.0f} / {:.0f} ms".format(*figures[name])
        for name in ("put", "ask", "lease", "read")
    }
    print(
        f"{load:<13}{count:>6} engines: {processes} x {places} places filled in {claimed:.1f} s; {rate:.0f} "
        f"trajectories/s{at_once}: put {shown['put']} (median, "
        f"99 %, longest), {figures['again']} again; {figures['asks']} times asked for work, {shown['ask']}; "
        f"{figures['leases']} leases of {step} groups, {figures['read_mb']:.0f} MB: figures {shown['lease']}, read "
        f"{shown['read']}; {cpu:.2f} cores, {memory_mib(buffer.pid, 'VmHWM'):.0f} MiB, {watch.files} files, health "
        f"within {watch.health:.2f} s{back}",
        flush=True,
    )


class Fanout:
    """Mock engines in a few processes, the last of them with those that are to be killed, and who updates them."""

    def __init__(self, options, stack, count, mib):
        killed = max(1, count // 100)
        shares = [(count - killed + i) // 4 for i in range(4)] + [killed]
        self.stamps, urls = [], []
        for share in filter(None, shares):
            self.fragile, some = mock_engines(options, stack, share)
            urls += some
            threading.Thread(target=self.note, args=(self.fragile.stdout,), daemon=True).start()
        self.process = start(
            stack,
            [program(options, "weight_fanout"), str(mib), str(options.tensors), str(killed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        print(*urls, file=self.process.stdin, flush=True)

    def note(self, stamps):
        for line in stamps:
            self.stamps.append(float(line))

    def update(self, kill_after=None):
        self.stamps.clear()
        print(file=self.process.stdin, flush=True)
        if kill_after is not None:
            time.sleep(kill_after)
            self.fragile.kill()
        figures = json.loads(self.process.stdout.readline())
        while len(self.stamps) < figures["have"]:
            time.sleep(0.01)
        figures["seconds"] = figures["over"] - figures["begun"]
        figures["last"] = max(self.stamps) - figures["begun"]
        return figures


def measure_weights(options, count):
    for mib in (0, options.mib):
        with contextlib.ExitStack() as stack:
            fanout = Fanout(options, stack, count, mib)
            rounds = [fanout.update() for _ in range(options.rounds)]
            usual = sorted(r["last"] for r in rounds)[len(rounds) // 2]
            broken = fanout.update(kill_after=usual / 2)
        print(
            f"{f'{mib} MiB' if mib else 'checksums':<13}{count:>6} engines: all have them after "
            f"{spread([r['last'] for r in rounds], '{:.2f}')} s, over after "
            f"{spread([r['seconds'] for r in rounds], '{:.2f}')} s, {spread([r['cpu_s'] for r in rounds], '{:.2f}')} "
            f"CPU s; {broken['mib']} MiB, {broken['threads']} threads, {broken['files']} files; with a hundredth "
            f"killed after {usual / 2:.2f} s: {broken['have']} have them after {broken['last']:.2f} s, over after "
            f"{broken['seconds']:.2f} s",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--parts", default="router,buffer,weights")
    parser.add_argument("--engines", default="10,100,1000")
    parser.add_argument("--policies", default="least_loaded,least_tokens,power_of_two,cache_aware,consistent_hash")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--idle", type=float, default=10, help="seconds of nothing")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--bytes", type=int, default=2048, help="of a prompt")
    parser.add_argument("--places", type=int, default=64, help="sequences of an engine")
    parser.add_argument("--loads", default="three turns,one turn,15 s at once,killed", help="of the buffer")
    parser.add_argument("--step", type=int, help="groups of a lease")
    parser.add_argument("--folder", help="of the buffer's database")
    parser.add_argument("--tensors", type=int, default=399, help="of the model: Qwen3-8B's")
    parser.add_argument("--mib", type=int, default=16, help="of the weights that each engine fetches")
    options = parser.parse_args()
    options.binary = os.environ.get("TRITONFORGE_BINARY", os.path.join(options.build, "tritonforge"))
    measures = {"router": measure_router, "buffer": measure_buffer, "weights": measure_weights}
    parts = options.parts.split(",")
    if "router" in parts and not shutil.which("wrk"):
        sys.exit("wrk is missing (Debian: apt-get install wrk)")
    for part in parts:
        for count in map(int, options.engines.split(",")):
            measures[part](options, count)


if __name__ == "__main__":
    plain_errors.use()
    main()
