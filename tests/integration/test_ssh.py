"""`run --launcher ssh` over three machines: this one and two network namespaces with an sshd each. What a host's end
costs is a step: its roles come back elsewhere and the weights are those of a run on this machine alone."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from front_door import PROBLEM, RIGHT
from machines import (
    PLACED,
    REFUSALS,
    SMALL,
    Machine,
    flags,
    open_ports,
    ports_of,
    require_sshd,
    ssh_nodes,
    told_to_strangers,
    weights_tls,
)
from runs import BINARY, RECIPE, ROOT, HeldDisk, Run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from filters import filtered  # beside the folders of tests


@pytest.fixture
def nodes(tmp_path):
    require_sshd()
    with ssh_nodes(tmp_path, 2) as made:
        yield made


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    require_sshd()
    run = Run(tmp_path_factory.mktemp("alone"), *flags(SMALL))
    run.finish()
    return run


def hosts_of(run):
    return {role["name"]: role["host"] for role in run.status()["roles"]}


def told_of_ours(run, nodes):
    """By address, what a stranger on another machine is told by each port of the nodes but their sshd's, and by each
    of this one that the run has."""
    first, second = nodes
    here = ports_of(run.process.pid).intersection(open_ports(Machine.head, first.space))
    told = told_to_strangers([*here, *open_ports(second.address, first.space)], first.space)
    told |= told_to_strangers(open_ports(first.address, second.space), second.space)
    sshds = [told.pop(f"{node.address}:2222") for node in nodes]  # which the scan has found, then
    assert sshds == 2 * [{"SSH-2.0-Open"}]
    return told


def test_rounds_are_refused_where_tls_is_asked_for(tmp_path, monkeypatch):
    for name in ("CERT", "KEY", "CA"):
        monkeypatch.setenv(f"TRITONFORGE_WEIGHTS_TLS_{name}", str(tmp_path / name))
    for command, code in (("run", 2), ("plan", 0)):  # a plan says that it cannot be run
        words = [BINARY, command, str(ROOT / "recipes/quickstart.yaml"), *flags([*SMALL, "placement.weights=group"])]
        said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
        assert said.returncode == code
        refusal = (
            "'placement.weights' group: TRITONFORGE_WEIGHTS_TLS_CERT asks for TLS, and rounds go over Gloo or NCCL"
        )
        assert refusal in said.stdout + said.stderr
    monkeypatch.delenv("TRITONFORGE_WEIGHTS_TLS_CA")
    assert "go together" in Run(tmp_path, *flags(SMALL), output="none").finish(code=2)


@pytest.mark.parametrize("weights", ["folder", "group", "tcp", "tls"])
def test_a_host_killed_in_the_middle_of_a_step_costs_that_step_alone(alone, nodes, tmp_path, monkeypatch, weights):
    # A cache of its own: the binary reaches the nodes by the launcher, as it does the first time.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if weights == "tls":
        hosts = (Machine.head, "127.0.0.1", *(node.address for node in nodes))
        for name, file in weights_tls(tmp_path, *hosts).items():
            monkeypatch.setenv(name, file)
    way = "tcp" if weights == "tls" else weights
    settings = SMALL + PLACED + [f"placement.ssh_config={tmp_path}/ssh_config", f"placement.weights={way}"]
    disk = HeldDisk(tmp_path)  # it does not take what the first step of RL made before the machines were asked
    disk.refuse("trajectories.jsonl")
    run = Run(tmp_path, "--launcher", "ssh", *flags(settings), output="cluster", program=disk.program)
    disk.wait_for_one(run, "trajectories.jsonl")
    before = hosts_of(run)
    assert {name: before[name] for name in before if name != "dashboard"} == {
        "trainer": "node-1",
        "engine-0": "node-1",
        "engine-1": "node-2",
        "evaluator": "node-2",
        "generator-0": "",
        "generator-1": "",
        "router": "",
        "buffer": "",
    }
    # Roles listen on their own loopback alone, but for the trainer's weights where they do not go through the folder,
    # and in a round of theirs its members: none is under way. What can be reached asks for a key.
    told = told_of_ours(run, nodes)
    assert all(said <= REFUSALS for said in told.values()), told
    assert [at.rpartition(":")[0] for at in told] == ([] if weights == "folder" else [nodes[0].address]), told
    assert len(list((tmp_path / "cache/tritonforge/nodes").iterdir())) == 1
    # No word of a job, a key least of all, is part of a command line on the node.
    shown = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for node in nodes for pid in node.pids()]
    agents = [line for line in shown if line.endswith(b"agent\0")]
    assert len(agents) >= 4 and not any(b"TRITONFORGE_INSTANCE" in line for line in shown)
    disk.take("trajectories.jsonl")
    run.wait_for_rl_step(1)
    nodes[0].kill()
    run.wait_for(lambda: hosts_of(run).get("trainer") not in ("node-1", None), "the trainer elsewhere")
    said = run.finish()
    assert run.weights("rl") == alone.weights("rl"), said[-3000:]
    assert run.weights("sft") == alone.weights("sft")
    steps = [step["step"] for step in run.steps("rl")]
    assert steps == [1, 2]
    log = (tmp_path / "cluster/logs").iterdir()
    assert {path.name for path in log} >= {"trainer.log", "engine-0.log"}


def served_at(node, kind):
    """The process of a role there."""
    words = {pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in node.pids()}
    (pid,) = [pid for pid in words if words[pid][1:3] == [b"serve", kind.encode()]]
    return pid


def judged(evaluator, candidate):
    body = {"problem": {"id": "relu", "source": PROBLEM.format(operator="relu")}, "candidate": candidate}
    request = urllib.request.Request(
        f"{evaluator}/v2/evaluations", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=400) as reply:
        return json.load(reply)


def test_the_recipe_of_three_machines_gives_what_one_gives(alone, nodes, tmp_path):
    """From the data to the table; and what judges on a node can reach nobody there."""
    disk = HeldDisk(tmp_path)  # it does not take what the first step of RL made before the node was looked at
    disk.refuse("trajectories.jsonl")
    run = Run(
        *(tmp_path, "--launcher", "ssh"),
        *flags([*SMALL, "stages=[data, sft, rl, bench]", f"placement.ssh_config={tmp_path}/ssh_config"]),
        program=disk.program,
        text=RECIPE.replace("quickstart.yaml", "cpu-cluster.yaml"),
    )
    disk.wait_for_one(run, "trajectories.jsonl")
    evaluator, engine = served_at(nodes[1], "evaluator"), served_at(nodes[1], "engine")
    assert min(filtered(evaluator)) > filtered(engine)[0]
    roles = {role["name"]: role for role in run.status()["roles"]}
    # The engine beside it answers on their loopback, and a candidate does not get there.
    url = roles["engine-1"]["url"]
    nodes[1].inside(sys.executable, "-c", f"import urllib.request; urllib.request.urlopen('{url}/health', timeout=60)")
    reaching = f"import socket; socket.create_connection(('127.0.0.1', {url.rpartition(':')[2]}), timeout=60)"
    candidate = RIGHT.replace("        n = x.numel()", f"        {reaching}\n        n = x.numel()")
    verdicts = [judged(roles["evaluator"]["url"], source) for source in (RIGHT, candidate)]
    assert [verdict["error_kind"] for verdict in verdicts] == ["", "forbidden"], verdicts
    disk.take("trajectories.jsonl")
    run.finish()
    assert run.weights("rl") == alone.weights("rl")
    assert [row["samples"] for row in run.table()] == 6 * [2]


def test_a_host_that_lacks_something_is_named_before_anything_starts(nodes, tmp_path):
    settings = SMALL + PLACED + [f"placement.ssh_config={tmp_path}/ssh_config"]
    nodes[1].kill()
    run = Run(tmp_path, "--launcher", "ssh", *flags(settings), output="none")
    said = run.finish(code=3)
    assert "node-2: ssh does not get there (its message is above); nothing finished is lost: mend" in said
    assert f"go on with --resume (folder {run.output})" in said
    assert not (tmp_path / "none/logs/trainer.log").exists()


def test_hosts_without_a_launcher_that_reaches_them_are_refused(tmp_path):
    run = Run(tmp_path, *flags(SMALL + PLACED), output="none")
    assert "'placement' has node-1 among its hosts: --launcher ssh or ray starts roles there" in run.finish(code=2)
    for host in ("-oProxyCommand=x", "a b", "$(x)"):
        settings = [*SMALL, f"placement.hosts=[localhost, '{host}']"]
        run = Run(tmp_path, "--launcher", "ssh", *flags(settings), output="none")
        assert "is no name of a host" in run.finish(code=2)


def agent(job, after=""):
    return subprocess.run(
        [BINARY, "agent"], input=job + "\n" + after, capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def test_an_agent_starts_what_its_input_says_and_ends_with_it(tmp_path):
    def job(*argv):
        return json.dumps({"argv": argv, "env": {"KEY": "a 'b' $c"}, "folder": str(tmp_path)})

    # Its input ends at once: the process is killed. One that waits for the process is `Popen` below.
    assert agent(job("sleep", "100")).returncode == 137
    assert "no job" in agent("nonsense").stderr
    assert agent(json.dumps({"argv": [], "env": {}, "folder": "/"})).returncode == 2
    process = subprocess.Popen(
        [BINARY, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    process.stdin.write(job("sh", "-c", 'trap "exit 255" TERM; echo "$KEY"; pwd; while :; do sleep 0.1; done') + "\n")
    process.stdin.flush()
    assert process.stderr.readline() == "a 'b' $c\n"
    assert process.stderr.readline() == f"{tmp_path}\n"
    process.stdin.write("signal 15\n")
    process.stdin.flush()
    assert process.wait(timeout=60) == 254  # 255 is what ssh says when it loses its host
    assert process.stdout.read() == "exited 254\n"
    process.stdin.close()


def test_an_agent_that_hears_nothing_more_ends_what_it_started(tmp_path):
    """A connection that dies without a sign leaves the agent's input open."""
    job = {"argv": ["sleep", "1000"], "env": {}, "folder": str(tmp_path), "silence_s": 1}
    process = subprocess.Popen(
        [BINARY, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    assert process.wait(timeout=60) == 137
    assert process.stdout.read() == "exited 137\n"
    process.stdin.close()


def test_an_archive_that_tar_could_not_make_whole_is_not_kept(tmp_path, monkeypatch):
    """Of a file that is gone before tar reads it tar says so, and ends the archive as if nothing were missing. The
    stand-in for ssh has this machine for the host."""
    tar = shutil.which("tar")
    for name, script in {
        "ssh": 'for command; do :; done\nexec sh -c "$command"',
        "tar": f'{tar} "$@"\ncode=$?\n[ "$1" = -xf ] || code=1\nexit $code',
    }.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = [*SMALL, "stages=[sft]", "placement.hosts=[localhost, far]", "placement.actor.hosts=[far]"]
    said = Run(tmp_path, "--launcher", "ssh", *flags(settings), output="none").finish(code=3)
    assert "could not be copied there (tar ended with 1 here: its message is above)" in said
    assert list((tmp_path / "cache/tritonforge/nodes").iterdir()) == []


FAR = [*SMALL, "stages=[sft]", "placement.hosts=[localhost, far]", "placement.actor.hosts=[far]"]


@pytest.fixture
def far(tmp_path, monkeypatch):
    """`far` is this machine with an environment of Python's and a libtorch of its own, by a stand-in for ssh: what is
    envs/ here is far/ there, and no library that the loader finds there is one."""
    for folder in ("bin", "envs/ours/bin", "far", "broken"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "envs/ours/pyvenv.cfg").write_text("home = nowhere\n")
    (tmp_path / "envs/ours/bin/python").symlink_to(sys.executable)
    (tmp_path / "broken/libtorch_cpu.so").write_text("half a library")
    ssh = tmp_path / "bin/ssh"
    there = f"sed s,{tmp_path}/envs,{tmp_path}/far,g"
    ssh.write_text(
        "#!/bin/sh\nfor command; do :; done\n"
        f"export LD_LIBRARY_PATH={tmp_path}/broken\n"
        f'exec sh -c "$(printf %s "$command" | {there})"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITONFORGE_PYTHON", str(tmp_path / "envs/ours/bin/python"))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return tmp_path / "far"


def test_a_host_that_cannot_load_libtorch_is_told_when_it_is_prepared(far, tmp_path):
    said = Run(tmp_path, "--launcher", "ssh", *flags(FAR), output="none").finish(code=3)
    why = re.search("^tritonforge: what computes with libtorch cannot be loaded: .*$", said, re.M)
    assert why and "libtorch_cpu.so: " in why[0], said
    assert "far: tritonforge does not start there (its message is above)" in said[why.end() :]
    assert not (tmp_path / "none/logs/trainer.log").exists()


def test_an_environment_that_was_brought_goes_when_nobody_uses_it(far, tmp_path):
    """Preparing a host removes what launchers brought there, and nothing else."""
    for name, age_days, brought in (("last-week", 8, True), ("yesterday", 1, True), ("their-own", 8, False)):
        (far / name).mkdir()
        for file in ("pyvenv.cfg", ".complete", *([".brought"] if brought else [])):
            (far / name / file).touch()
            os.utime(far / name / file, times=2 * (time.time() - age_days * 86400,))
    Run(tmp_path, "--launcher", "ssh", *flags(FAR), output="none").finish(code=3)
    assert {path.name for path in far.iterdir()} == {"ours", "yesterday", "their-own"}
    assert {path.name for path in (far / "ours").iterdir()} == {".brought", ".complete", "bin", "pyvenv.cfg"}
    # It is there now: the next preparation says that it is used.
    os.utime(far / "ours/.brought", times=(0, 0))
    Run(tmp_path, "--launcher", "ssh", *flags(FAR), output="none-again").finish(code=3)
    assert (far / "ours/.brought").stat().st_mtime > time.time() - 86400


def test_a_signal_while_hosts_are_prepared_ends_the_run(tmp_path, monkeypatch):
    """The stand-in for ssh never comes to an end, as one that copies gigabytes over a slow line."""
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text("#!/bin/sh\ntouch " + str(tmp_path / "begun") + "\nexec sleep 1000\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    settings = [*SMALL, "stages=[sft]", "placement.hosts=[localhost, far]", "placement.actor.hosts=[far]"]
    run = Run(tmp_path, "--launcher", "ssh", *flags(settings), output="stopped")
    run.wait_for((tmp_path / "begun").exists, "the first word to a host")
    run.process.send_signal(signal.SIGTERM)
    said = run.finish(code=143)
    assert "stopped by Terminated while the hosts were prepared; nothing was started" in said


def ranks_of(run):
    """The trainer's processes, once the status has them."""
    run.wait_for(lambda: any(role["name"] == "trainer" for role in run.status()["roles"]), "the ranks in the status")
    return next(role["pids"] for role in run.status()["roles"] if role["name"] == "trainer")


def cores_of(pid):
    """Those that any of its threads may run on."""
    return set().union(*(os.sched_getaffinity(int(task)) for task in os.listdir(f"/proc/{pid}/task")))


def variable(pid, name):
    words = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.partition("=")[::2] for word in words).get(name)


def test_a_placement_of_two_ranks_trains_as_one_process_does(tmp_path, monkeypatch):
    """And each rank sees what it was given alone."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")  # of this process, which a placement on cores gives to nobody
    cores = sorted(os.sched_getaffinity(0))[:2]
    losses = []
    for ranks in (1, 2):
        (tmp_path / f"disk-{ranks}").mkdir()
        disk = HeldDisk(tmp_path / f"disk-{ranks}")  # it takes no step before the ranks were looked at
        disk.refuse("steps.jsonl")
        settings = ["stages=[sft]", "sft.steps=2", f"placement.actor={{dp: {ranks}, core_ids: {cores}}}"]
        run = Run(tmp_path, *flags(settings), output=f"ranks-{ranks}", program=disk.program)
        disk.wait_for_one(run, "steps.jsonl")
        pids = ranks_of(run)
        assert [cores_of(pid) for pid in pids] == ([set(cores)] if ranks == 1 else [{core} for core in cores])
        assert [variable(pid, "CUDA_VISIBLE_DEVICES") for pid in pids] == ranks * [""]
        disk.take("steps.jsonl")
        run.finish()
        losses.append([step["loss"] for step in run.steps("sft")])
        assert f"dp: {ranks}" in (run.output / "trainer-sft.yaml").read_text()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


TAKES_PORTS = """
import os, socket, sys
parts = 32  # processes: none has more files than it may
mine = next((part for part in range(1, parts) if os.fork() == 0), 0)
taken = []
for port in range(20000 + mine, 32768, parts):
    if port % 64 == 0: continue
    taken.append(socket.socket())
    taken[-1].bind((sys.argv[1], port))
os.write(1, b"taken\\n")  # whole
sys.stdin.read()
"""


def take_most_ports(node):
    """Of its own address, by another program that is there: one in 64 is left of those that a run chooses from."""
    words = node.command(sys.executable, "-c", TAKES_PORTS, node.address)
    program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert [program.stdout.readline() for _ in range(32)] == 32 * ["taken\n"]
    return program


def test_ranks_on_two_hosts_train_as_one_process_does(alone, nodes, tmp_path):
    other = take_most_ports(nodes[0])
    settings = [*SMALL, "stages=[sft]", "placement.hosts=[node-1, node-2]", "placement.actor.dp=2"]
    settings.append(f"placement.ssh_config={tmp_path}/ssh_config")
    disk = HeldDisk(tmp_path)  # it takes no step before the machines were asked
    disk.refuse("steps.jsonl")
    run = Run(tmp_path, "--launcher", "ssh", *flags(settings), program=disk.program)
    disk.wait_for_one(run, "steps.jsonl")
    # What the ranks tell each other goes between the hosts, and is all that can be reached there: the rendezvous of
    # rank 0, which asks for a key, and the collectives of both, which are Gloo's, ask for none and wait.
    told = told_of_ours(run, nodes)
    collectives = {at for at, said in told.items() if said == {"silence"}}
    refusing = {at for at, said in told.items() if said <= REFUSALS}
    assert told.keys() == collectives | refusing and len(refusing) == 1, told
    assert {at.rpartition(":")[0] for at in collectives} == {node.address for node in nodes}, told
    disk.take("steps.jsonl")
    run.finish()
    losses = [[step["loss"] for step in each.steps("sft")] for each in (run, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    other.communicate()
