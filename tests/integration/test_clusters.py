"""docs/clusters/: the Slurm script runs what it should, the Kubernetes manifest holds against Kubernetes' schemas."""

import contextlib
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys

import pytest

from test_signals import until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import reserved_port  # beside the folders of tests

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = ROOT / "docs/clusters/slurm.sh"


def submitted(tmp_path, *arguments, nodes="a b c"):
    """The command that the script runs in an allocation of `nodes`."""
    commands = {
        "scontrol": f'[ "$*" = "show hostnames LIST" ] && printf "%s\\n" {nodes}',
        "tritonforge": 'printf "%s\\n" "$@" > "$TOLD"; exit 7',
    }
    for name, text in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    told = tmp_path / "told"
    env = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", SLURM_JOB_NODELIST="LIST", TOLD=str(told))
    env["TRITONFORGE_OUTPUT"] = str(tmp_path / "run")
    done = subprocess.run([str(SCRIPT), *arguments], env=env, timeout=60, capture_output=True, text=True)
    assert done.returncode == 7, done.stderr  # the run's own
    return told.read_text().splitlines()


def test_a_slurm_job_is_a_run_over_its_nodes(tmp_path):
    folder = str(tmp_path / "run")
    recipe = "recipes/qwen3-8b-rl-4-4-2.yaml"
    began = submitted(tmp_path, recipe, "--set", "seed=2")
    assert began == [
        *("run", recipe, "--launcher", "ssh", "--output", folder),
        *("--set", "placement.hosts=[localhost,b,c]", "--set", "placement.eval.hosts=[c]", "--set", "seed=2"),
    ]
    # Requeued, it goes on; on one node everything is there.
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.yaml").write_text("")
    assert "--resume" in submitted(tmp_path, recipe)
    assert "placement.eval.hosts=[localhost]" in submitted(tmp_path, recipe, nodes="a")


SLURM = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser=root
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
GresTypes=gpu
NodeName=node-1 NodeHostname=localhost Port={first} Gres=gpu:8
NodeName=node-2 NodeHostname=localhost Port={second} Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A controller, and two nodes of eight GPUs each, which are files: all on this machine."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    programs = [shutil.which(name, path=path) for name in ("munged", "slurmctld", "slurmd")]
    if os.geteuid() != 0 or not all(programs):
        pytest.skip("a Slurm of the test's own needs root and Debian's slurmd (requirements/install --clusters)")
    munged, slurmctld, slurmd = programs
    for folder in ("state", "node-1", "node-2"):
        (tmp_path / folder).mkdir()
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    devices = [tmp_path / f"gpu{number}" for number in range(8)]
    for device in devices:
        device.touch()
    (tmp_path / "gres.conf").write_text(f"Name=gpu File={tmp_path}/gpu[0-7]\n")
    controller, first, second = (reserved_port() for _ in range(3))
    (tmp_path / "slurm.conf").write_text(
        SLURM.format(folder=tmp_path, controller=controller, first=first, second=second)
    )
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    files = [f"--{name}={tmp_path / name}" for name in ("pid-file", "log-file", "seed-file")]
    commands = [
        [munged, "--foreground", "--force", f"--socket={tmp_path}/munge", f"--key-file={key}", *files],
        [slurmctld, "-D", "-c"],
        [slurmd, "-D", "-N", "node-1"],
        [slurmd, "-D", "-N", "node-2"],
    ]
    with contextlib.ExitStack() as processes, open(tmp_path / "log", "w") as log:
        for command in commands:
            process = processes.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            processes.callback(process.kill)
            if command[0] == munged:
                until((tmp_path / "munge").exists, "no munged")
        until(lambda: said("sinfo", "-h", "-o", "%D %t") == "2 idle\n", "the nodes are not idle")
        yield


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


def test_slurm_runs_it_over_the_nodes_that_it_gives(slurm, tmp_path, monkeypatch):
    """And ends it as the script asks for: by TERM to the script, which tells the run."""
    program = tmp_path / "bin/tritonforge"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ntrap "exit 7" TERM\nprintf "%s\\n" "$@" > "$TOLD.tmp"\nmv "$TOLD.tmp" "$TOLD"\n'
        "for _ in $(seq 600); do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    told = tmp_path / "told"
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TOLD", str(told))
    monkeypatch.chdir(tmp_path)
    recipe = "recipes/qwen3-8b-rl-4-4-2.yaml"
    job = re.search(r"Submitted batch job (\d+)", said("sbatch", str(SCRIPT), recipe, "--set", "seed=2"))[1]
    until(told.exists, "the job does not run")
    assert told.read_text().splitlines() == [
        *("run", recipe, "--launcher", "ssh", "--output", "runs/qwen3-8b-rl-4-4-2"),
        *("--set", "placement.hosts=[localhost,node-2]", "--set", "placement.eval.hosts=[node-2]", "--set", "seed=2"),
    ]
    said("scancel", "--batch", "--signal=TERM", job)
    until(lambda: "JobState=FAILED" in said("scontrol", "show", "job", job), "the job does not end")
    assert "ExitCode=7:0" in said("scontrol", "show", "job", job)


def test_the_kubernetes_manifest_holds_against_its_schemas(tmp_path):
    python = subprocess.run(
        [ROOT / "requirements/install", "--clusters-python"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.exists(python):
        pytest.skip("requirements/install --clusters installs kubernetes-validate")
    validate = pathlib.Path(python).parent / "kubernetes-validate"
    manifest = ROOT / "docs/clusters/kubernetes.yaml"
    done = subprocess.run([validate, "--strict", manifest], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    # It would not be, were a key wrong.
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(manifest.read_text().replace("replicas:", "replicsa:"))
    done = subprocess.run([validate, "--strict", wrong], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "replicsa" in done.stdout + done.stderr
