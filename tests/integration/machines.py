"""Machines of a test: network namespaces of this one, each with a loopback of its own."""

import contextlib
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

# Begins the names of all that this process makes. Not its pid: what a killed test left may bear that.
OURS = f"tf{secrets.token_hex(3)}"


def require_namespaces():
    import pytest  # make chaos has none

    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2 (requirements/install --clusters)")
    probe = subprocess.run(["ip", "netns", "add", f"{OURS}p"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no network namespaces here: {probe.stderr.strip()}")
    subprocess.run(["ip", "netns", "del", f"{OURS}p"], check=True)


# Stages and sizes that leave the undisturbed run under half a minute.
SMALL = [
    "stages=[sft, rl]",
    "rl.steps=2",
    "rollout.max_turns=1",
    "rl.train.checkpoint_interval=1",
    "supervisor.hung_after_s=20",
]


# Over this machine and two nodes, with generators in processes of their own.
PLACED = [
    "placement.hosts=[localhost, node-1, node-2]",
    "placement.actor.hosts=[node-1]",
    "placement.rollout={engines: 2, hosts: [node-1, node-2]}",
    "placement.eval.hosts=[node-2]",
    "rollout.generators=2",
]


def weights_tls(folder, *addresses):
    """Variables of an authority's and of one certificate for all of the addresses (docs/clusters.md)."""
    names = ",".join(f"IP:{address}" for address in addresses)
    for words in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ours -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=host -keyout host-key.pem -out host.csr",
    ):
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
    (folder / "host.ext").write_text(f"subjectAltName={names}")
    sign = "x509 -req -in host.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile host.ext -out host.pem"
    subprocess.run(["openssl", *sign.split()], cwd=folder, check=True, capture_output=True)
    files = {"CERT": "host.pem", "KEY": "host-key.pem", "CA": "ca.pem"}
    return {f"TRITONFORGE_WEIGHTS_TLS_{name}": str(folder / file) for name, file in files.items()}


def flags(settings):
    return [word for setting in settings for word in ("--set", setting)]


def free_network():
    """The first three numbers of one that no interface here has: also those count that a killed test left behind."""
    routes = pathlib.Path("/proc/net/route").read_text().splitlines()[1:]
    taken = {socket.inet_ntoa(bytes.fromhex(route.split()[1])[::-1]).rpartition(".")[0] for route in routes}
    numbers = (divmod((os.getpid() + further) % 12500, 250) for further in range(12500))
    return next(network for high, low in numbers if (network := f"10.{200 + high}.{low}") not in taken)


class Machine:
    """A network namespace that this one reaches at `address`, and that reaches this one at `head`. All machines of a
    process reach each other through a bridge."""

    network = free_network()
    head = f"{network}.1"
    bridge = f"{OURS}b"

    def __init__(self, number, folder):
        self.name, self.number = f"node-{number}", number
        self.space = f"{OURS}n{number}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.address = f"{self.network}.{number + 1}"
        link, there = f"{OURS}h{number}", f"{OURS}n{number}"
        if subprocess.run(["ip", "link", "show", self.bridge], capture_output=True).returncode != 0:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("addr", "add", f"{self.head}/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
        self.link = link
        ip("netns", "add", self.space)
        ip("link", "add", link, "type", "veth", "peer", "name", there, "netns", self.space)
        ip("link", "set", link, "master", self.bridge, "up")
        self.inside("ip", "addr", "add", f"{self.address}/24", "dev", there)
        self.inside("ip", "link", "set", there, "up")
        self.inside("ip", "link", "set", "lo", "up")

    def command(self, *words):
        return ["ip", "netns", "exec", self.space, *words]

    def inside(self, *words):
        subprocess.run(self.command(*words), check=True)

    def pids(self):
        listed = subprocess.run(["ip", "netns", "pids", self.space], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def kill(self):
        """All of its processes at once: nobody there answers any more."""
        until = time.monotonic() + 120
        while time.monotonic() < until:  # what is killed still gives its memory back, and others may just have begun
            pids = self.pids()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                return
        raise AssertionError(f"{self.name} still runs {self.pids()}")

    def listening(self):
        """(address, program) of TCP sockets that listen here on anything but loopback."""
        listed = subprocess.run(self.command("ss", "-Hltnp"), capture_output=True, text=True, check=True)
        sockets = [line.split() for line in listed.stdout.splitlines()]
        return [(s[3], s[-1]) for s in sockets if not s[3].startswith(("127.", "[::1]", "[::ffff:127."))]

    def remove(self):
        self.kill()
        subprocess.run(["ip", "netns", "del", self.space], check=False)
        subprocess.run(["ip", "link", "del", self.link], check=False, stderr=subprocess.DEVNULL)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def asked_from(space, script, *words):
    """What a Python script says, line by line, that asks from the namespace `space`."""
    command = ["ip", "netns", "exec", space, sys.executable, "-c", script, *words]
    asked = subprocess.run(command, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.splitlines()


def open_ports(address, space):
    """ADDRESS:PORT of every TCP port of a machine that takes a connection from the namespace `space`."""
    script = """
import errno, socket, sys
socket.setdefaulttimeout(20)
for port in range(1, 65536):
    with socket.socket() as stranger:
        code = stranger.connect_ex((sys.argv[1], port))
        assert code in (0, errno.ECONNREFUSED), (port, errno.errorcode.get(code))
        if code == 0: print(f"{sys.argv[1]}:{port}")
"""
    return asked_from(space, script, address)


def told_to_strangers(addresses, space):
    """By address, the beginnings of what it says to some first words of who has no key, in the namespace `space`:
    "ended" and "silence" among them, and "challenge": what a sender of weights asks for its key with, and no more."""
    script = """
import concurrent.futures, socket, sys
def told(address, words):
    host, port = address.rsplit(":", 1)
    said = b""
    try:
        with socket.create_connection((host, int(port)), timeout=10) as stranger:
            stranger.sendall(words)
            said = stranger.recv(1000)
            while said.startswith(CHALLENGE) and (more := stranger.recv(1000)): said += more
    except ConnectionError: said = said or b"ended"
    except TimeoutError: said = said or b"silence"
    return b"challenge" if said.startswith(CHALLENGE) and len(said) == 24 else said[:12] or b"ended"
CHALLENGE = b"TFBULK1\\n"
words = (b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", b"0" * 32 + b" serve\\n", b"x" * 200 + b"\\r\\n\\r\\n")
asked = [(address, each) for address in sys.argv[1:] for each in words]
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    for (address, _), said in zip(asked, pool.map(told, *zip(*asked))):
        print(address, ascii(said.decode("latin1").rstrip())[1:-1])
"""
    told = {address: set() for address in addresses}
    for line in asked_from(space, script, *addresses) if addresses else []:
        address, _, said = line.partition(" ")
        told[address].add(said)
    return told


# What tells a stranger nothing: without a key, or where it speaks no HTTP.
REFUSALS = {"ended", "challenge", "HTTP/1.1 401", "HTTP/1.1 400"}


def with_children(pid):
    """The process and all that came of it."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            parents.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(int(text.split()[0]))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def ports_of(pid):
    """Of this machine where it is reached at `head`, those where the process or what came of it listens: others come
    and go here meanwhile."""
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    ours, ports = set(with_children(pid)), set()
    for line in listed.splitlines():
        if ours.intersection(map(int, re.findall(r"pid=(\d+)", line))):
            ports.add(f"{Machine.head}:{line.split()[3].rpartition(':')[2]}")
    return ports


def remove_all(machines):
    for machine in machines:
        machine.remove()
    subprocess.run(["ip", "link", "del", Machine.bridge], check=False, stderr=subprocess.DEVNULL)


SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")


def require_sshd():
    import pytest  # make chaos has none

    require_namespaces()
    if not SSHD or not shutil.which("ssh"):
        pytest.skip("no sshd here: requirements/install --clusters")


class Node(Machine):
    """A machine with an sshd."""

    sshd = None

    def start(self):
        key = self.folder / "host_key"
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress {self.address}:2222\nHostKey {key}\nPidFile none\nStrictModes no\nUsePAM no\n"
            f"PermitRootLogin yes\nAuthorizedKeysFile {self.folder.parent}/key.pub\nMaxStartups 100\n"
        )
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        with open(self.folder / "log", "w") as log:
            self.sshd = subprocess.Popen(self.command(SSHD, "-D", "-e", "-f", str(config)), stderr=log, cwd="/")
        deadline = time.monotonic() + 120
        while socket.socket().connect_ex((self.address, 2222)) != 0:
            assert self.sshd.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def remove(self):
        super().remove()
        if self.sshd:
            self.sshd.wait()


@contextlib.contextmanager
def ssh_nodes(folder, count):
    """node-1, node-2, ... and folder/ssh_config, with which `ssh` gets there."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    made = []
    try:
        for number in range(1, count + 1):
            made.append(Node(number, folder))
            made[-1].start()
        lines = [
            f"Host {node.name}\n HostName {node.address}\n Port 2222\n User root\n IdentityFile {folder}/key\n"
            " StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n IdentitiesOnly yes\n"
            for node in made
        ]
        (folder / "ssh_config").write_text("".join(lines))
        yield made
    finally:
        remove_all(made)
