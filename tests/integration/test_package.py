"""What an installed wheel does, without installing one: its launcher, its container files and what they name. The wheel
itself is tried in a fresh Debian root by package/fresh_root, which needs root and the network (docs/install.md)."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from machines import flags, require_sshd, ssh_nodes
from runs import Run

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
LAUNCHER = ROOT / "package/wheel/tritonforge/__main__.py"


def launch(folder, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TRITONFORGE_", "LD_"))}
    return subprocess.run(
        [sys.executable, folder / "__main__.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def installed(tmp_path):
    """site-packages/tritonforge as the wheel has it, with a program that says what it was given."""
    folder = tmp_path / "tritonforge"
    (folder / "bin").mkdir(parents=True)
    (folder / "__main__.py").write_text(LAUNCHER.read_text())
    program = folder / "bin/tritonforge"
    program.write_text(
        '#!/bin/sh\nprintf \'%s\\n\' "$TRITONFORGE_ROOT" "$TRITONFORGE_PYTHON" "$LD_LIBRARY_PATH" "$@"\nexit 5\n'
    )
    program.chmod(0o755)
    return folder


def test_the_launcher_runs_the_program_on_the_torch_of_its_python(installed):
    result = launch(installed, "run", "a b", "--set", "x=$y")
    root, python, libraries, *arguments = result.stdout.splitlines()
    assert (result.returncode, root, python) == (5, str(installed), sys.executable)
    assert arguments == ["run", "a b", "--set", "x=$y"]
    assert all((pathlib.Path(folder) / "..").exists() for folder in libraries.split(":"))
    assert (pathlib.Path(libraries.split(":")[0]) / "libtorch_cpu.so").exists()


def test_another_torch_is_refused_in_one_line(installed):
    launcher = installed / "__main__.py"
    launcher.write_text(launcher.read_text().replace('TORCH = "2.11.0"', 'TORCH = "2.99.0"'))
    result = launch(installed, "doctor")
    assert result.returncode == 3 and result.stdout == ""
    assert re.fullmatch(
        r"tritonforge: torch is 2\.11\.0.*, 2\.99\.0 is needed: .* -m pip install torch==2\.99\.0\n", result.stderr
    )


def test_what_travels_is_found_and_nothing_of_torch_is_among_it():
    program = [BINARY, *map(str, pathlib.Path(BINARY).parent.glob("libtritonforge_*.so"))]
    said = subprocess.run([ROOT / "tools/own_libraries", *program], capture_output=True, text=True, check=True)
    names = {pathlib.Path(line).name.split(".so")[0] for line in said.stdout.splitlines()}
    assert {"libsqlite3", "libfmt", "libspdlog", "libyaml-cpp", "libcrypto", "libseccomp"} <= names
    assert not [name for name in names if re.match(r"libtorch|libc10|libcu|libc$|libstdc|libgomp|libarrow", name)]


def test_an_installed_package_brings_all_that_it_needs_to_other_hosts(tmp_path, monkeypatch):
    require_sshd()
    tree = tmp_path / "installed/tritonforge"
    subprocess.run([ROOT / "package/tree", pathlib.Path(BINARY).parent, tree], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITONFORGE_PYTHON", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    settings = [
        "stages=[sft]",
        "sft.steps=2",
        "placement.hosts=[node-1]",
        f"placement.ssh_config={tmp_path}/ssh_config",
    ]
    with ssh_nodes(tmp_path, 1) as (node,):
        program = [sys.executable, str(tree)]
        run = Run(tmp_path, "--launcher", "ssh", *flags(settings), program=program, root=tree)
        run.wait_for(lambda: run.steps("sft"), "a step")
        mapped = [pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in node.pids()]
        trainer = next(text for text in mapped if "libtritonforge_torch.so" in text)
        run.finish()
    assert not any(str(tree) in text for text in mapped), "a program that is on this machine alone"
    # Debian's libraries are those that travelled, not the ones that this machine happens to have.
    (place,) = (tmp_path / "cache/tritonforge/nodes").iterdir()
    assert {path.name for path in (place / "bin/lib").iterdir()} == {path.name for path in (tree / "bin/lib").iterdir()}
    for library in ("libfmt", "libspdlog", "libyaml-cpp"):
        assert f"{place}/bin/lib/{library}" in trainer and f"/usr/lib/x86_64-linux-gnu/{library}" not in trainer


def test_versions_in_container_files_are_those_of_the_requirements():
    pins = dict(
        line.strip().split("==") for line in (ROOT / "requirements/python.txt").read_text().splitlines() if "==" in line
    )
    places = [*(ROOT / "package/containers").iterdir(), ROOT / "docs/amd.md", ROOT / "src/cli/torch/doctor.cpp"]
    places += [ROOT / "src/cli/torch/model.cpp", ROOT / "src/dataset/parquet.cpp"]
    found = [m for place in places for m in re.findall(r"\b([a-z-]+)==(\d[\w.]+)", place.read_text())]
    assert {name for name, _ in found} == {"torch", "numpy", "huggingface-hub", "pyarrow"}
    assert not [(name, version) for name, version in found if pins[name] != version]


def test_every_service_of_the_compose_file_is_a_command_with_these_flags():
    services = yaml.safe_load((ROOT / "package/containers/compose.yaml").read_text())["services"]
    assert {service["command"][1] for service in services.values()} == {"engine", "router", "evaluator", "buffer"}
    for service in services.values():
        role, flags = service["command"][1], service["command"][2:]
        known = subprocess.run([BINARY, "serve", role, "--help"], capture_output=True, text=True, check=True).stdout
        assert not [flag for flag in flags if flag.startswith("--") and not re.search(rf"{flag}\b", known)]
        assert (ROOT / service["build"]["dockerfile"]).exists()
    json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
