"""New kernels a second of one evaluator, and its latencies with many clients; beside another build, interleaved.

needs the built binary (TRITONFORGE_BINARY or ./build/tritonforge); --other ROOT: another checkout or copy with build/
Every candidate has another constant, so that neither verdicts nor machine code are in a cache. Others may use the
machine: what counts is the processors' time of a verdict (user and system, of the server and all that it started), and
of the rates the ratio of rounds that ran after one another. /health is asked from a process of its own.
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
CORES = len(os.sched_getaffinity(0))  # taskset counts
sys.path.insert(0, os.path.join(ROOT, "tests", "adversarial"))
os.environ.setdefault("TRITONFORGE_ROOT", ROOT)
import plain_errors

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


def processor_seconds(root):
    """User and system time of a process and all below it, those that have ended among them."""
    pids = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.split()
    children, ticks, open_pids = {}, 0, [root]
    for pid, parent in zip(map(int, pids[::2]), map(int, pids[1::2])):
        children.setdefault(parent, []).append(pid)
    while open_pids:
        pid = open_pids.pop()
        open_pids += children.get(pid, [])
        try:
            with open(f"/proc/{pid}/stat") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        except FileNotFoundError:  # between ps and here: its parent has its time
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


class Side:
    def __init__(self, root, options):
        evaluator_server.ROOT, evaluator_server.BINARY = root, os.path.join(root, "build", "tritonforge")
        flags = ["--mode", options.mode, "--device", options.device, "--workers", str(CORES), "--max-queue", "1024"]
        self.server, self.made = Evaluator(*flags), 0
        self.rates, self.processor_ms = [], []
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
        start, taken = time.perf_counter(), processor_seconds(self.server.process.pid)
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            times = list(pool.map(lambda _: self.judge(), range(count)))
        self.rates.append(count / (time.perf_counter() - start))
        self.processor_ms.append(1000 * (processor_seconds(self.server.process.pid) - taken) / count)
        return times


def quantiles(times, scale=1):
    ordered = sorted(times)
    at = lambda q: scale * ordered[min(len(ordered) - 1, int(q * len(ordered)))]  # noqa: E731
    return f"p50 {at(0.5):.2f}, p99 {at(0.99):.2f}, most {scale * ordered[-1]:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="plan")
    parser.add_argument("--device", default="cpu", help="a GPU's verdicts are timed, too")
    parser.add_argument("--other", help="root of another build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=40, help="evaluations a round")
    parser.add_argument("--clients", type=int, default=64, help="at once, in the last round; 0: no such round")
    options = parser.parse_args()
    sides = {"this": Side(ROOT, options)}
    if options.other:
        sides["other"] = Side(os.path.abspath(options.other), options)
    for _ in range(options.rounds):
        for side in sides.values():
            side.round(options.count, CORES)
    for name, side in sides.items():
        for figures, unit in ((side.rates, "new kernels /s"), (side.processor_ms, "ms of processors a verdict")):
            print(f"{name:<6} {statistics.median(figures):6.1f} {unit}   ({', '.join(f'{x:.1f}' for x in figures)})")
    if options.other:
        for of in ("rates", "processor_ms"):
            ratios = [a / b for a, b in zip(getattr(sides["this"], of), getattr(sides["other"], of))]
            print(f"ratio  {statistics.median(ratios):6.2f} {of}   [{min(ratios):.2f}, {max(ratios):.2f}]")
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
    plain_errors.use()
    main()
