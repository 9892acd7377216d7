"""`run --launcher ray` on a Ray cluster of three nodes: this machine and two network namespaces. A node that is killed
costs a step: its roles come back elsewhere and the weights are those of a run on this machine alone."""

import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from machines import OURS, SMALL, Machine, flags, remove_all, require_namespaces, told_to_strangers, with_children
from runs import BINARY, RECIPE, ROOT, HeldDisk, Run, weights_in

RAY = (
    pathlib.Path(
        subprocess.run(
            [ROOT / "requirements/install", "--ray-python"], capture_output=True, text=True, check=True
        ).stdout
    ).parent
    / "ray"
)

TEMPORARY = f"/tmp/{OURS}ray"  # Ray's: paths of sockets are short


def free_port():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        return taken.getsockname()[1]


PORT, DASHBOARD, CLIENTS = (str(free_port()) for _ in range(3))

# No worker of Python's is started that nobody asked for, and a node that does not answer is given up in seconds.
QUICK = {
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300",
}


# A key without which nobody gets into this cluster; what is started here has it, too.
KEY = secrets.token_hex(16)
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=KEY)


def require_ray():
    require_namespaces()
    if not RAY.exists() or not pathlib.Path(BINARY).with_name("tritonforge-ray").exists():
        pytest.skip("Ray is not installed here: make ray")


def start_ray(address, folder, *words, through=lambda *command: list(command)):
    command = through(
        *(str(RAY), "start", "--node-ip-address", address, "--num-gpus", "0", "--object-store-memory", "80000000"),
        *("--disable-usage-stats", "--block", *words),
    )
    with open(folder / "log", "w") as log:
        return subprocess.Popen(command, env=dict(os.environ, **QUICK), stdout=log, stderr=log, cwd="/")


class Node(Machine):
    """A machine with a raylet, and the worker processes that it starts."""

    def start(self):
        # Its own folder for Ray's sockets: raylets that start side by side in one would choose the same names.
        own = 'mount -t tmpfs none "$0" && exec "$@"'
        self.ray = start_ray(
            *(self.address, self.folder, "--num-cpus", "4", "--address", f"{self.head}:{PORT}"),
            through=lambda *command: self.command("unshare", "-m", "sh", "-c", own, TEMPORARY, *command),
        )

    def joined(self):
        wait_for_text("will now block forever", self.folder / "log")

    def kill(self):
        super().kill()
        self.ray.wait()

    def come_back(self):
        if self.ray.poll() is not None:
            self.start()
            self.joined()


@pytest.fixture
def cluster(standing_cluster):
    """With all of its nodes, whatever the test before did to them."""
    for node in standing_cluster:
        node.come_back()
    return standing_cluster


@pytest.fixture(scope="module")
def standing_cluster(tmp_path_factory):
    require_ray()
    folder = tmp_path_factory.mktemp("cluster")
    nodes, head = [], None
    try:
        nodes = [Node(number, folder) for number in (1, 2)]
        pathlib.Path(TEMPORARY).mkdir()
        head = start_ray(
            *(Machine.head, folder, "--num-cpus", "4", "--head", "--port", PORT, "--temp-dir", TEMPORARY),
            *("--include-dashboard", "true", "--dashboard-host", Machine.head, "--dashboard-port", DASHBOARD),
            *("--ray-client-server-port", CLIENTS),
        )
        wait_for_port(int(PORT), head, folder / "log")
        for node in nodes:
            node.start()
        wait_for_text("will now block forever", folder / "log")
        for node in nodes:
            node.joined()
        yield nodes
    finally:
        remove_all(nodes)
        if head:
            for pid in with_children(head.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            head.wait()
            shutil.rmtree(TEMPORARY, ignore_errors=True)


def wait_for_text(text, log):
    deadline = time.monotonic() + 300
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def wait_for_port(port, process, log):
    deadline = time.monotonic() + 300
    while socket.socket().connect_ex((Machine.head, port)) != 0:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    require_ray()
    run = Run(tmp_path_factory.mktemp("alone"), *flags(SMALL))
    run.finish()
    return run


def on_cluster(folder, settings, *words, output="cluster", **more):
    address = ["--launcher", "ray", "--ray-address", f"{Machine.head}:{PORT}"]
    return Run(folder, *address, *flags(SMALL + settings), *words, output=output, **more)


def placed(nodes):
    """Two engines, one trainer, one evaluator over three nodes; that of this machine is a node like the others."""
    first, second = (node.address for node in nodes)
    return [
        f"placement.hosts=[localhost, {Machine.head}, {first}, {second}]",
        f"placement.rollout={{engines: 2, hosts: [{first}, {second}]}}",
        f"placement.actor.hosts=[{first}]",
        f"placement.eval.hosts=[{Machine.head}]",
    ]


def hosts_of(run):
    return {role["name"]: role["host"] for role in run.status()["roles"]}


def listening_here():
    """Addresses beyond loopback where a process of ours listens on this machine; Ray's drivers have ports of Ray's."""
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    sockets = [line.split() for line in listed.splitlines() if '"tritonforge"' in line]
    return [s[3] for s in sockets if not s[3].startswith("127.")]


def test_without_its_program_the_launcher_says_how_to_get_it(tmp_path):
    for file in (BINARY, pathlib.Path(BINARY).parent / "libtritonforge_torch.so"):
        shutil.copy(file, tmp_path)
    (tmp_path / "small.yaml").write_text(RECIPE)
    words = ["run", "small.yaml", "--launcher", "ray", "--ray-address", "10.0.0.1:6379"]
    environment = dict(os.environ, TRITONFORGE_ROOT=str(ROOT))
    said = subprocess.run(
        [tmp_path / "tritonforge", *words], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60
    )
    assert said.returncode == 3
    assert "tritonforge-ray, which is not built: `make ray` builds it" in said.stderr


def submitted(*words):
    return subprocess.run(
        [BINARY, "submit", *words, "--ray-address", f"http://{Machine.head}:{DASHBOARD}"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )


def test_a_submitted_run_is_a_job_of_the_cluster(alone, cluster, tmp_path):
    # Its hosts are the cluster's own, since the recipe names none.
    (tmp_path / "small.yaml").write_text(RECIPE)
    settings = flags([*SMALL, "stages=[sft, bench]", "bench.models=[sft]", "placement.actor.dp=1"])
    job = submitted(tmp_path / "small.yaml", "--output", tmp_path / "cluster", *settings)
    assert job.returncode == 0, job.stdout + job.stderr
    assert job.stdout.startswith("job raysubmit_") and "sft done in" in job.stdout
    assert weights_in(tmp_path / "cluster/models/sft") == alone.weights("sft")
    hosts = "".join(f"\n    - {address}" for address in (Machine.head, *(node.address for node in cluster)))
    assert f"hosts:{hosts}\n" in (tmp_path / "cluster/recipe.yaml").read_text()
    # One that fails says so, whoever submitted it: here, that its folder holds a run already.
    again = submitted(tmp_path / "small.yaml", "--output", tmp_path / "cluster", *settings)
    assert again.returncode == 1 and "the job failed" in again.stderr and "--resume" in again.stdout, again.stdout
    words = [BINARY, "run", tmp_path / "small.yaml", "--launcher", "ray", "--output", tmp_path / "cluster", *settings]
    by_ray = [RAY, "job", "submit", "--address", f"http://{Machine.head}:{DASHBOARD}", "--", *words]
    refused, shown = (
        subprocess.run([*by_ray, *more], capture_output=True, text=True, timeout=300) for more in ([], ["--resume"])
    )
    assert refused.returncode == 1 and "--resume" in refused.stdout, refused.stdout + refused.stderr
    assert shown.returncode == 0 and "this run is finished" in shown.stdout, shown.stdout + shown.stderr
    assert "pass@1" in shown.stdout and str(tmp_path / "cluster/result.json") in shown.stdout, shown.stdout


def environments(node):
    """Of our processes there."""
    mine = [pid for pid in node.pids() if os.readlink(f"/proc/{pid}/exe").endswith("/tritonforge")]
    return [pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in mine]


def placement_groups():
    """State and nodes of each that there is, as Ray says them."""
    script = """
import json, ray, sys
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
at = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
groups = [group for group in ray.util.placement_group_table().values() if group["state"] != "REMOVED"]
nodes = {group["name"]: sorted(at[node] for node in group["bundles_to_node_id"].values()) for group in groups}
print(json.dumps({group["name"]: [group["state"], *nodes[group["name"]]] for group in groups}))
"""
    words = [RAY.parent / "python", "-c", script, f"{Machine.head}:{PORT}"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout)


def test_a_node_killed_at_any_instant_costs_its_step_alone(alone, cluster, tmp_path, monkeypatch):
    # A cache of its own: the binary reaches the nodes by the launcher, as it does the first time.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    disk = HeldDisk(tmp_path)  # it takes no bench's results before the cluster was looked at
    disk.refuse("figures.json")
    settings = [*placed(cluster), "stages=[data, sft, rl, bench]"]
    runtime_env = ["--ray-runtime-env", '{"env_vars": {"OF_RUNTIME_ENV": "a"}}']
    run = on_cluster(tmp_path, settings, *runtime_env, program=disk.program)
    disk.wait_for_one(run, "figures.json")
    first, second = (node.address for node in cluster)
    assert placement_groups() == {
        "actor": ["CREATED", first],
        "rollout": ["CREATED", first, second],
        "eval": ["CREATED", Machine.head],
    }
    seen = [environment for node in cluster for environment in environments(node)]
    assert len(seen) >= 4 and all(b"OF_RUNTIME_ENV=a" in environment for environment in seen)
    # On the nodes nothing of ours listens beyond loopback; here the tunnel does, and tells strangers nothing.
    assert [[who for _, who in node.listening() if '"tritonforge"' in who] for node in cluster] == [[], []]
    listening = listening_here()
    assert listening and all(address.startswith(f"{Machine.head}:") for address in listening)
    told = told_to_strangers(listening, cluster[1].space)
    assert all(said == {"ended"} for said in told.values()), told
    disk.take("figures.json")
    run.wait_for(lambda: run.status()["stage"] == "rl" and hosts_of(run).get("trainer"), "RL")
    assert {name: host for name, host in hosts_of(run).items() if host} == {
        "trainer": first,
        "engine-0": first,
        "engine-1": second,
        "evaluator": Machine.head,
    }
    run.wait_for(lambda: run.query("SELECT count(*) FROM groups WHERE id LIKE 'rl-1-%'") != [(0,)], "the first step")
    after = random.uniform(0, 3)
    print(f"the node is killed {after:.3f} s after the first step began")
    time.sleep(after)
    cluster[0].kill()
    said = run.finish()
    assert run.weights("rl") == alone.weights("rl"), said[-3000:]
    assert run.weights("sft") == alone.weights("sft")
    assert [step["step"] for step in run.steps("rl")] == [1, 2]
    assert [(row["name"], row["samples"]) for row in run.table()] == [
        (name, 2) for name in ("base", "sft", "rl") for _ in (1, 2)
    ]
    assert len(list((tmp_path / "cache/tritonforge/nodes").iterdir())) == 1


def an_environment(folder):
    """One of Python's that has what the tests' has, and is small enough to be brought to a node."""
    site = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(pathlib.Path(sys.executable).resolve())
    shutil.copy(pathlib.Path(sys.prefix) / "pyvenv.cfg", folder)
    packages = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
    (site / "tests.pth").write_text(f"{packages}\n")
    return folder / "bin/python"


def test_program_and_environment_reach_nodes_that_have_neither(alone, cluster, tmp_path, monkeypatch):
    python = an_environment(tmp_path / "envs/ours")
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("TRITONFORGE_PYTHON", str(python))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def there(node, *words):
        command = ["nsenter", "--mount", "--target", str(node.ray.pid), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    for node, folder in itertools.product(cluster, ("envs", "cache")):
        there(node, "mount", "-t", "tmpfs", "none", tmp_path / folder)
        assert there(node, "ls", "-A", tmp_path / folder) == []
    first, second = (node.address for node in cluster)
    settings = [
        f"placement.hosts=[{first}, {second}]",
        f"placement.rollout={{engines: 1, hosts: [{first}]}}",
        f"placement.actor.hosts=[{first}]",
        f"placement.eval.hosts=[{second}]",  # who has Python's children
    ]
    run = on_cluster(tmp_path, settings)
    run.finish()
    for stage in ("sft", "rl"):
        assert run.weights(stage) == alone.weights(stage)
    for node in cluster:
        assert len(there(node, "ls", tmp_path / "cache/tritonforge/nodes")) == 1
        assert ".brought" in there(node, "ls", "-A", tmp_path / "envs/ours")
    assert not (tmp_path / "envs/ours/.brought").exists() and not (tmp_path / "cache/tritonforge/nodes").exists()


def test_ranks_on_two_nodes_train_as_one_process_does(alone, cluster, tmp_path):
    addresses = ", ".join(node.address for node in cluster)
    run = on_cluster(tmp_path, ["stages=[sft]", f"placement.hosts=[{addresses}]", "placement.actor.dp=2"])

    def met():
        return all(any('"tritonforge"' in who for _, who in node.listening()) for node in cluster)

    run.wait_for(met, "ranks that have met")
    run.finish()
    losses = [[step["loss"] for step in each.steps("sft")] for each in (run, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
