#!/usr/bin/env python3
"""A soak of one evaluator: good, bad and hostile candidates, and kill -9 of a random child (a candidate's, a problem's,
a compiler or a replayer), of the Python parent or of the server itself all the while.

    bench/evaluator_soak.py                          # 5,000 evaluations
    bench/evaluator_soak.py --evaluations 300        # as a first look
    bench/evaluator_soak.py --compile-server         # kernels are compiled by a server of their own, whose Python
                                                     # parent and children are killed, too

Every evaluation must end with the verdict that its candidate has coming, given once; what a killed server owed is asked
for again, of the one that is started in its place. Memory, processes, descriptors, folders and shared memory are read
whenever nothing is under way, ten times in all; prints each and a summary. Exit status 1 with the reasons where a
verdict is wrong or missing, or where anything grew."""

import argparse
import collections
import concurrent.futures
import contextlib
import glob
import http.client
import itertools
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time
import urllib.error

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/adversarial"))
import plain_errors

from evaluator_server import HEADER, HONEST, Evaluator

SHARED = f"/dev/shm/tritonforge-soak-{os.getpid()}"  # this soak's alone: others use shared memory, too
GROWTH_MIB = 64  # of the server's own memory, from its first reading on: its caches are bounded, and fill


def forward(lines):
    body = "".join(f"        {line}\n" for line in lines.split("\n"))
    return HEADER + "class ModelNew(nn.Module):\n    def forward(self, x):\n" + body


# Each with the error kinds that are a right verdict; "" is correct.
GOOD = {
    "relu": (HONEST, {""}),
    "two launches": (HONEST.replace("return launch(x)", "launch(x)\n        return launch(x)"), {""}),
}
BAD = {
    "wrong values": (HONEST.replace("* 2", "* 3"), {"mismatch"}),
    "wrong shape": (forward("return launch(x)[:2]"), {"mismatch"}),
    "nan": (forward("return launch(x * float('nan'))"), {"mismatch"}),
    "syntax": ("def forward(:\n", {"syntax_error"}),
    "no ModelNew": (HEADER, {"import_error"}),
    "import": ("import no_such_module\n" + HONEST, {"import_error"}),
    "compile": (HONEST.replace("tl.arange(0, B)", "tl.arange(0, B + 1)"), {"compile_error"}),
    "raises": (forward("raise ValueError('no')"), {"runtime_error"}),
    "no kernel": (forward("return torch.relu(x) * 2"), {"", "unproven"}),  # a cheat by its flag
}
HOSTILE = {
    "exits": (forward("import os\nos._exit(0)"), {"crashed", "forbidden"}),
    "segfault": (forward("import ctypes\nctypes.string_at(0)"), {"crashed"}),
    # They are there for up to six seconds; what was killed three times over is crashed, whoever did it. Beside other
    # work, memory is not given so fast that its bound is reached before the deadline.
    "endless": (forward("while True: pass"), {"timeout", "crashed"}),
    "memory": (
        forward("hold = []\nwhile True: hold.append(bytearray(1 << 26))"),
        {"out_of_memory", "timeout", "crashed"},
    ),
    "forks": (forward("import os\nwhile True: os.fork()"), {"forbidden", "crashed", "out_of_memory"}),
    "disk": (forward("open('big', 'wb').write(bytes(1 << 30))\nreturn launch(x)"), None),
    "shared memory": (forward(f"open('{SHARED}', 'wb').write(bytes(1 << 28))\nreturn launch(x)"), None),
    "garbled channel": (
        forward("import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'x' * 64)\n    except OSError: pass"),
        None,
    ),
    "threads": (forward("import threading\nthreading.Thread(target=print).start()\nreturn launch(x)"), None),
}

ENDLESS = ("endless", "memory")


class Server:
    """The evaluator; another one where it was killed."""

    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.compiler = Evaluator("--role", "compile") if options.compile_server else None
        self.now, self.lives = None, 0
        self.start()

    def start(self):
        role = ["--role", "perf", "--compile-servers", self.compiler.url] if self.compiler else []
        drawn = ["--trial-data", "drawn"] if self.options.drawn else []
        workers = ["--workers", str(self.options.workers)]
        self.now = Evaluator("--mode", "plan", *workers, *drawn, *role)
        self.lives += 1

    def processes(self):
        """(what it is, pid) of all that may be killed. A parent without children has just begun, and is left to."""
        found = [("server", self.now.process.pid)]
        for of, server in (("", self.now), ("compile server's ", self.compiler)):
            parents = children_of(server.process.pid) if server else []
            for parent in parents:
                children = [pid for pid in tree_of(parent) if pid != parent]
                found += [(of + "Python parent", parent)] if children else []
                found += [(of + "child", pid) for pid in children]
        return found

    def end(self):
        for server in (self.now, self.compiler):
            if server:
                server.process.kill()
                server.process.wait(60)

    def again(self, dead):
        """The server after `dead`; whoever comes first starts it."""
        with self.lock:
            if self.now is dead and dead.process.poll() is not None:
                self.start()
        return self.now


def folders():
    """Of this soak's servers alone: the folder for temporary files is its own (main)."""
    return glob.glob(f"{tempfile.gettempdir()}/tritonforge-evaluator-*")


def children_of(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in glob.glob(f"/proc/{pid}/task/*/children"):
            found += map(int, pathlib.Path(task).read_text().split())
    return found


def tree_of(root):
    """pid -> resident MiB of a process and all below it."""
    found, open_pids = {}, [root]
    while open_pids:
        pid = open_pids.pop()
        try:
            resident = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
        found[pid] = resident * os.sysconf("SC_PAGESIZE") / (1 << 20)
        open_pids += children_of(pid)
    return found


class Soak:
    def __init__(self, options):
        self.options, self.server = options, Server(options)
        self.kinds = GOOD | BAD | HOSTILE
        self.verdicts, self.asked_again = {}, collections.Counter()
        self.killed, self.wrong = collections.Counter(), []
        self.chance, self.next_kill = random.Random(options.seed), time.monotonic()
        self.readings, self.lock = [], threading.Lock()

    def candidate(self, i):
        rng = random.Random(f"{self.options.seed} {i}")
        names = rng.choices([GOOD, BAD, HOSTILE], [5, 4, 1])[0]
        name = rng.choice(list(names))
        source = self.kinds[name][0] + f"\n# {self.options.seed} {i}\n"
        if self.options.compile_server:  # which has processes to be killed where kernels are new to every cache
            source = source.replace("relu_kernel", f"relu_{self.options.seed}_{i}")
        return name, source

    def judge(self, i):
        name, source = self.candidate(i)
        while True:
            server = self.server.now
            try:
                verdict = server.judge(source, timeout_s=6 if name in ENDLESS else 60)
                break
            except urllib.error.HTTPError as error:
                if error.code not in (503, 504):
                    raise
                self.asked_again[f"{error.code} for {name!r}: {json.load(error)['error']['message']}"] += 1
            except (OSError, http.client.HTTPException):
                self.asked_again["the server was killed"] += 1
                server.process.poll()
                self.server.again(server)
        expected = self.kinds[name][1]
        right = expected is None or verdict["error_kind"] in expected
        earns = verdict["correct"] and not verdict["cheated"]
        if not right or (name in GOOD) > earns or (earns and name in BAD):
            self.wrong.append(f"{name} ({i}): {verdict['error_kind']!r}, {verdict['diagnostics'][:200]}")
        with self.lock:
            if i in self.verdicts:
                self.wrong.append(f"{i} has two verdicts")
            self.verdicts[i] = name

    def kill(self, over):
        """One process after the other, at instants of chance: a child, a Python parent or the server, as often as the
        options say."""
        while not over.wait(max(0, self.next_kill - time.monotonic())):
            kind = self.next_kind()
            found = [pid for one, pid in self.server.processes() if one == kind]
            if not found:  # a compile server has none between two kernels: it is killed when it has
                self.next_kill = time.monotonic() + 0.02
                continue
            self.next_kill = time.monotonic() + self.options.every * (0.5 + self.chance.random())
            with contextlib.suppress(ProcessLookupError):  # it had ended by itself
                os.kill(self.chance.choice(found), signal.SIGKILL)
                self.killed[kind] += 1

    def next_kind(self):
        """Of an evaluator's and a compile server's each as often, however many processes they have."""
        turn = sum(self.killed.values()) + 1
        if turn % self.options.server_kills == 0:
            return "server"
        kind = "Python parent" if turn % self.options.parent_kills == 1 else "child"
        both = [f"compile server's {kind}", kind] if self.server.compiler else [kind]
        return min(both, key=lambda one: self.killed[one])

    def settle(self):
        """Nothing is under way, idle children alone are left, and the Python parent of a killed server has swept its
        folders: a poll, its deadline only bounds a failure."""
        server, deadline = self.server.again(self.server.now), time.monotonic() + 300
        before = None
        while time.monotonic() < deadline:
            report = server.get("/health")["report"]
            now = sorted(tree_of(server.process.pid))
            if report["busy"] == report["waiting"] == 0 and now == before and not self.left(server):
                break
            before = now
            time.sleep(0.5)
        return server

    def left(self, server):
        """Folders of servers that were killed."""
        alive = [one.process.pid for one in (server, self.server.compiler) if one]
        return [f for f in folders() if not any(f"-{pid}-" in f for pid in alive)]

    def read(self, done):
        server = self.settle()
        pid, tree = server.process.pid, tree_of(server.process.pid)
        mine = [f for f in folders() if f"-{pid}-" in f]
        reading = {
            "done": done,
            "life": self.server.lives,
            "server MiB": round(tree[pid], 1),
            "processes": len(tree),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "folders": sum(len(glob.glob(f + "/*")) for f in mine),
            "left folders": len(self.left(server)),
            "shared MiB": round(os.path.getsize(SHARED) / 2**20) if os.path.exists(SHARED) else 0,
        }
        self.readings.append(reading)
        print(reading, dict(self.killed), flush=True)

    def run(self):
        total = self.options.evaluations
        edges = [total * k // 10 for k in range(11)]
        with concurrent.futures.ThreadPoolExecutor(self.options.clients) as clients:
            for first, last in itertools.pairwise(edges):
                over = threading.Event()
                killer = threading.Thread(target=self.kill, args=(over,))
                killer.start()
                list(clients.map(self.judge, range(first, last)))
                over.set()
                killer.join()
                self.read(last)
        return self.report()

    def report(self):
        wrong = self.wrong[:20]
        if missing := set(range(self.options.evaluations)) - set(self.verdicts):
            wrong.append(f"{len(missing)} without a verdict")
        by_life = collections.defaultdict(list)
        for reading in self.readings:
            by_life[reading["life"]].append(reading)
        grown = max(one[-1]["server MiB"] - one[0]["server MiB"] for one in by_life.values())
        if grown > GROWTH_MIB:
            wrong.append(f"the server grew by {grown:.1f} MiB")
        bound = 4 * (2 * 8 + 2) + 8  # idle compilers and replayers with their stand-ins, and the parent's threads
        for name, most in [("processes", bound), ("descriptors", 128), ("folders", bound), ("left folders", 0)]:
            worst = max(reading[name] for reading in self.readings)
            if worst > most:
                wrong.append(f"{worst} {name}, {most} are the bound")
        if self.readings[-1]["shared MiB"] > 0:
            wrong.append("shared memory is left behind")
        counts = collections.Counter(self.verdicts.values())
        print(f"\n{len(self.verdicts)} verdicts, each given once: {dict(sorted(counts.items()))}")
        print(f"kill -9: {dict(self.killed)}; asked for again: {dict(self.asked_again)}; {self.server.lives} servers")
        for line in wrong:
            print(f"soak: {line}", file=sys.stderr)
        return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--every", type=float, default=2, help="seconds between two kills, on average")
    parser.add_argument("--server-kills", type=int, default=40, help="one of so many kills is of the server")
    parser.add_argument("--parent-kills", type=int, default=12, help="one of so many kills is of a Python parent")
    parser.add_argument("--drawn", action="store_true", help="trials are drawn by the replayers, as on a GPU")
    parser.add_argument("--compile-server", action="store_true", help="kernels are compiled by a server of their own")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tritonforge-soak-", ignore_cleanup_errors=True) as own:
        # The servers inherit it. Other evaluators of the machine come and go, and are killed, elsewhere.
        os.environ["TMPDIR"] = tempfile.tempdir = own
        soak = Soak(options)
        try:
            return soak.run()
        finally:
            soak.server.end()


if __name__ == "__main__":
    plain_errors.use()
    sys.exit(main())
