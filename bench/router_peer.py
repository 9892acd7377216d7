"""What a router adds to a request and how many it carries, beside sglang-router: wrk against mock engines.

needs wrk (Debian), build/bench/mock_engine and byte_proxy, the built binary (TRITONFORGE_BINARY or
./build/tritonforge), and in PEER_PYTHON a Python with requirements/router_peer.txt (sglang-router 0.3.2); without it
ours alone is measured.
usage: bench/router_peer.py [--build build] [--policies cache_aware,power_of_two] [--rounds 3] [--seconds 3]
                            [--also NAME=BINARY]
Each round: wrk to an engine alone, to ours, to other builds of ours (--also), to the peer and to a program that hands
on bytes and reads none (the limit: what two more hops cost on this machine), with one connection (the median's
difference to the engine alone is what is added) and with --connections (requests a second). Rounds are interleaved; a
ratio is of one round, ours' speed over the other's.
Requests are /generate bodies of --bytes bytes with 64 different prompts. CPU is user and system time of the router's
process, which other load on the machine hardly changes, and of everything (wrk, the engines, the router): the number of
cores over the latter is what they carry at most.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import plain_errors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEER_POLICIES = {"cache_aware": "cache_aware", "power_of_two": "power_of_two", "round_robin": "round_robin"}

SCRIPT = """
local bodies, turn = {}, 0
for i = 1, 64 do
  local text = string.rep("problem " .. i .. " ", 4096):sub(1, %d)
  bodies[i] = wrk.format("POST", "/generate", {["content-type"] = "application/json"},
    '{"text": "' .. text .. '", "sampling_params": {"max_new_tokens": 16}}')
end
request = function() turn = turn %% 64 + 1; return bodies[turn] end
done = function(summary, latency, requests)
  local bad = summary.errors
  io.write(string.format("RESULT %%d %%f %%d %%d\\n", latency:percentile(50), summary.requests * 1e6 / summary.duration,
    bad.status, bad.connect + bad.read + bad.write + bad.timeout))
end
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until(port, path, what, process, deadline_s=60):
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit(f"{what} ended with {process.returncode}")
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("POST", path, json.dumps({"text": "x"}), {"content-type": "application/json"})
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    sys.exit(f"{what}: {path} on port {port} did not answer 200 within {deadline_s} s")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Side:
    def __init__(self, name, port, engines, process=None):
        self.name, self.port, self.engines, self.process = name, port, engines, process
        self.medians, self.rates, self.cpu, self.cpu_of_all = [], [], [], []

    def load(self, script, connections, seconds):
        own, engines, wrk = self.cpu_seconds(), cpu_seconds(self.engines.pid), cpu_of_children()
        out = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{self.port}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        own = self.cpu_seconds() - own
        everything = own + cpu_seconds(self.engines.pid) - engines + cpu_of_children() - wrk
        median, rate, bad, lost = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+)", out).groups()
        if int(bad) or int(lost):
            sys.exit(f"{self.name}: {bad} replies that are not 2xx, {lost} lost\n{out}")
        if connections == 1:
            self.medians.append(float(median))
        else:
            self.rates.append(float(rate))
            self.cpu.append(1e6 * own / (float(rate) * seconds))
            self.cpu_of_all.append(1e6 * everything / (float(rate) * seconds))

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid) if self.process else 0


def spread(values, form="{:.0f}"):
    low, middle, high = (form.format(x) for x in (min(values), statistics.median(values), max(values)))
    return f"{middle} [{low}, {high}]"


def report(policy, engine, routers):
    added = {side: [a - b for a, b in zip(side.medians, engine.medians)] for side in routers}
    print(
        f"{policy}: engine alone {spread(engine.medians)} us, {spread(engine.rates)} requests/s, "
        f"{spread(engine.cpu_of_all, '{:.1f}')} us of CPU with wrk"
    )
    for side in routers:
        print(
            f"  {side.name:<14} adds {spread(added[side])} us at the median of one connection, "
            f"carries {spread(side.rates)} requests/s, {spread(side.cpu, '{:.1f}')} us of CPU each, "
            f"{spread(side.cpu_of_all, '{:.1f}')} with wrk and engines"
        )
    ours = routers[0]
    for other in routers[1:]:
        latency = [b / a for a, b in zip(added[ours], added[other])]
        rate = [a / b for a, b in zip(ours.rates, other.rates)]
        cpu = [b / a for a, b in zip(ours.cpu, other.cpu)]
        of_all = [b / a for a, b in zip(ours.cpu_of_all, other.cpu_of_all)]
        print(
            f"  over {other.name}: added {spread(latency, '{:.2f}')}, throughput {spread(rate, '{:.2f}')}, "
            f"CPU {spread(cpu, '{:.2f}')}, CPU of all {spread(of_all, '{:.2f}')}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--policies", default="cache_aware,power_of_two,least_tokens,consistent_hash")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--bytes", type=int, default=2048, help="of a prompt")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=BINARY", help="another build of ours")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is missing (Debian: apt-get install wrk)")
    binary = os.environ.get("TRITONFORGE_BINARY", os.path.join(options.build, "tritonforge"))
    peer_program = os.path.join(os.path.dirname(os.environ.get("PEER_PYTHON", "")), "sglang-router")
    if not os.path.exists(peer_program):
        print("ours alone: no PEER_PYTHON with sglang-router (requirements/router_peer.txt)")
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:

        def start(command, **more):
            process = subprocess.Popen(command, **more)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        script = os.path.join(folder, "generate.lua")
        with open(script, "w") as out:
            out.write(SCRIPT % options.bytes)
        mock = start(
            [os.path.join(options.build, "bench", "mock_engine"), str(options.engines), "256"],
            stdout=subprocess.PIPE,
            text=True,
        )
        urls = [f"http://127.0.0.1:{port}" for port in mock.stdout.readline().split()]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for policy in options.policies.split(","):
            engine, routers = Side("engine", int(urls[0].rsplit(":", 1)[1]), mock), []
            workers = [part for url in urls for part in ("--worker", url)]
            limits = ["--max-running", "4096", "--training-rate", "1000000000", "--burst", "1000000000"]
            for name, program in [("tritonforge", binary), *(one.split("=", 1) for one in options.also)]:
                port = free_port()
                process = start(
                    [program, "serve", "router", "--port", str(port), "--policy", policy, *limits, *workers], **quiet
                )
                routers.append(Side(name, port, mock, process))
                wait_until(port, "/generate", name, process)
            if os.path.exists(peer_program) and policy in PEER_POLICIES:
                port = free_port()
                command = [peer_program, "launch", "--worker-urls", *urls]
                command += ["--host", "127.0.0.1", "--port", str(port), "--policy", PEER_POLICIES[policy]]
                command += ["--log-level", "error", "--prometheus-port", str(free_port())]
                command += ["--max-concurrent-requests", "4096"]
                process = start(command, **quiet)
                routers.append(Side("sglang-router", port, mock, process))
                wait_until(port, "/generate", "sglang-router", process)
            port = free_port()
            ports = [url.rsplit(":", 1)[1] for url in urls]
            process = start([os.path.join(options.build, "bench", "byte_proxy"), str(port), *ports], **quiet)
            routers.append(Side("bytes alone", port, mock, process))
            wait_until(port, "/generate", "byte_proxy", process)
            for connections in (1, options.connections):
                for _ in range(options.rounds):
                    for side in (engine, *routers):
                        side.load(script, connections, options.seconds)
            report(policy, engine, routers)
            for side in routers:
                side.process.kill()
                side.process.wait()


if __name__ == "__main__":
    plain_errors.use()
    main()
