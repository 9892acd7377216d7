"""docs/clusters/: the Slurm script runs what it should, the Kubernetes manifest holds against Kubernetes' schemas."""

import os
import pathlib
import subprocess

import pytest

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
