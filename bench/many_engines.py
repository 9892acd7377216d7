"""What a router takes for 10, 100 and 1,000 engines: wrk against mock engines, which answer at once from one process.

needs wrk (Debian), build/bench/mock_engine, the built binary (TRITONFORGE_BINARY or ./build/tritonforge)
usage: bench/many_engines.py [--build build] [--engines 10,100,1000] [--policies least_loaded,cache_aware] [--rounds 3]
Of each number: seconds until every engine is green, memory, CPU seconds a second of looking after their health (every 5
s) while nobody asks for anything, the median of a request beside an engine's own, requests a second of --connections
connections with CPU of each, and seconds of a request that goes to all of them.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from router_peer import ROOT, SCRIPT, Side, cpu_seconds, free_port, spread


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, json.dumps(body) if body is not None else None)
    reply = connection.getresponse()
    return reply.status, reply.read()


def memory_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def green(port):
    try:
        _, text = ask(port, "GET", "/health")
    except OSError:
        return 0
    found = re.search(r"(\d+) green", json.loads(text)["detail"])
    return int(found[1]) if found else 0


def measure(options, stack, script, count, policy):
    def start(command, **more):
        process = subprocess.Popen(command, **more)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process

    binary = os.environ.get("TRITONFORGE_BINARY", os.path.join(options.build, "tritonforge"))
    mock = start(
        [os.path.join(options.build, "bench", "mock_engine"), str(count), "256"], stdout=subprocess.PIPE, text=True
    )
    urls = [f"http://127.0.0.1:{port}" for port in mock.stdout.readline().split()]
    port = free_port()
    workers = [part for url in urls for part in ("--worker", url)]
    router = start(
        [binary, "serve", "router", "--port", str(port), "--policy", policy, *workers],
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--engines", default="10,100,1000")
    parser.add_argument("--policies", default="least_loaded,least_tokens,power_of_two,cache_aware,consistent_hash")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=10, help="seconds of nothing")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--bytes", type=int, default=2048, help="of a prompt")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is missing (Debian: apt-get install wrk)")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "generate.lua")
        with open(script, "w") as out:
            out.write(SCRIPT % options.bytes)
        for policy in options.policies.split(","):
            for count in map(int, options.engines.split(",")):
                with contextlib.ExitStack() as stack:
                    measure(options, stack, script, count, policy)


if __name__ == "__main__":
    main()
