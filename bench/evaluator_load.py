"""New kernels a second of one evaluator, and its latencies with many clients; beside another build, interleaved.

needs the built binary (TRITONFORGE_BINARY or ./build/tritonforge); --other ROOT: another checkout or copy with build/
Every candidate has another constant, so that neither verdicts nor machine code are in a cache. Others may use the
machine: what counts is the ratio of rounds that ran after one another. /health is asked from a process of its own.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "adversarial"))
os.environ.setdefault("TRITONFORGE_ROOT", ROOT)
import evaluator_server
from evaluator_server import HONEST, Evaluator

# Asks for /health every 20 ms until its input ends; prints the milliseconds of each.
PROBE = """
import http.client, json, select, sys, time
times = []
while not select.select([sys.stdin], [], [], 0.02)[0]:
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request("GET", "/health")
    connection.getresponse().read()
    times.append(1000 * (time.perf_counter() - start))
print(json.dumps(times))
"""


class Side:
    def __init__(self, root, mode):
        evaluator_server.ROOT, evaluator_server.BINARY = root, os.path.join(root, "build", "tritonforge")
        self.server, self.made = Evaluator("--mode", mode, "--workers", str(os.cpu_count()), "--max-queue", "1024"), 0
        self.rates = []
        self.judge()

    def judge(self):
        self.made += 1
        start = time.perf_counter()
        # A neighbour in fp32: a constant that rounds to the last one's gives the last one's machine code.
        verdict = self.server.judge(HONEST.replace("* 2, mask", f"* {2 + self.made * 2**-22!r}, mask"))
        assert verdict["correct"], verdict
        return time.perf_counter() - start

    def round(self, count, clients):
        """Seconds of each evaluation."""
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            times = list(pool.map(lambda _: self.judge(), range(count)))
        self.rates.append(count / (time.perf_counter() - start))
        return times


def quantiles(times, scale=1):
    ordered = sorted(times)
    at = lambda q: scale * ordered[min(len(ordered) - 1, int(q * len(ordered)))]  # noqa: E731
    return f"p50 {at(0.5):.2f}, p99 {at(0.99):.2f}, most {scale * ordered[-1]:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="plan")
    parser.add_argument("--other", help="root of another build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=40, help="evaluations a round")
    parser.add_argument("--clients", type=int, default=64, help="at once, in the last round; 0: no such round")
    options = parser.parse_args()
    sides = {"this": Side(ROOT, options.mode)}
    if options.other:
        sides["other"] = Side(os.path.abspath(options.other), options.mode)
    for _ in range(options.rounds):
        for side in sides.values():
            side.round(options.count, os.cpu_count())
    for name, side in sides.items():
        rates = ", ".join(f"{rate:.1f}" for rate in side.rates)
        print(f"{name:<6} {statistics.median(side.rates):6.1f} new kernels /s   ({rates})")
    if options.other:
        ratios = [a / b for a, b in zip(sides["this"].rates, sides["other"].rates)]
        print(f"ratio  {statistics.median(ratios):6.2f}   [{min(ratios):.2f}, {max(ratios):.2f}]")
    if options.clients:
        side = sides["this"]
        probe = subprocess.Popen(
            [sys.executable, "-c", PROBE, str(side.server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        times = side.round(4 * options.clients, options.clients)
        health = json.loads(probe.communicate(b"\n")[0])
        print(f"{options.clients} clients: {side.rates[-1]:.1f} /s, seconds a verdict: {quantiles(times)}")
        print(f"/health beside them, ms: {quantiles(health)} ({len(health)} asked)")
    for side in sides.values():
        side.server.stop()


if __name__ == "__main__":
    main()
