"""Runs over three machines (this one and two network namespaces with an sshd each), and the faults of machines and
links that chaos.py has none of."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import machines


@contextlib.contextmanager
def nodes(folder):
    """Two machines, and the settings of a run that uses them."""
    folder.mkdir(parents=True, exist_ok=True)
    with machines.ssh_nodes(folder, 2) as made:
        settings = [*machines.PLACED, "supervisor.hung_after_s=10", f"placement.ssh_config={folder}/ssh_config"]
        yield made, ["--launcher", "ssh", *machines.flags(settings)]


def faults(made):
    """Of the machines `made`, each as chaos.py's: takes the run and a random generator, says what it did."""

    def role_killed(_, rng):
        """A role's own process, not what carries it from here."""
        node = rng.choice(made)
        serving = []
        for pid in node.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"serve" in words:
                    serving.append((words[words.index(b"serve") + 1].decode(), pid))
        if not serving:
            return None
        kind, pid = rng.choice(sorted(serving))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return f"kill -9 the {kind} on {node.name}"
        return None

    def machine_killed(_, rng):
        node = rng.choice(made)
        node.kill()
        node.sshd.wait()
        away = rng.uniform(0, 8)
        time.sleep(away)
        node.start()
        return f"{node.name} killed, back after {away:.1f} s"

    def partition(_, rng):
        """Its link is down: nothing is refused, nothing arrives."""
        node, away = rng.choice(made), rng.uniform(0.5, 15)
        machines.ip("link", "set", node.link, "down")
        time.sleep(away)
        machines.ip("link", "set", node.link, "up")
        return f"{node.name} unreachable for {away:.1f} s"

    def slow_link(_, rng):
        node, lasting, rate = rng.choice(made), rng.uniform(2, 8), rng.choice(["1mbit", "5mbit", "20mbit"])
        limit = ["rate", rate, "burst", "32kb", "latency", "400ms"]
        subprocess.run(["tc", "qdisc", "replace", "dev", node.link, "root", "tbf", *limit], check=True)
        time.sleep(lasting)
        subprocess.run(["tc", "qdisc", "del", "dev", node.link, "root"], check=True)
        return f"{rate} to {node.name} for {lasting:.1f} s"

    return [role_killed, role_killed, machine_killed, partition, slow_link]
