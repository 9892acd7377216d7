"""Text cases against the real program. A case file holds blocks:

    $ run recipes/quickstart.yaml --set rl.stepz=3      arguments after `tritonforge`; {tmp} is a fresh folder
    exit 2
    err unknown key 'rl.stepz' .*did you mean 'steps'   a regular expression that stderr must hold; `out` likewise

stderr of a failure must be one line.
"""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build" / "tritonforge"))


def cases():
    for path in sorted(pathlib.Path(__file__).parent.glob("*.txt")):
        for block in re.split(r"\n(?=\$ )", "\n" + path.read_text()):
            lines = [line for line in block.strip().splitlines() if line and not line.startswith("#")]
            if lines and lines[0].startswith("$ "):
                yield pytest.param(lines[0][2:], lines[1:], id=f"{path.stem}: {lines[0][2:]}")


@pytest.mark.parametrize("command, expectations", cases())
def test_case(command, expectations, tmp_path):
    arguments = [part.replace("{tmp}", str(tmp_path)) for part in shlex.split(command)]
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "truncated.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    result = subprocess.run(
        [BINARY, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    for expectation in expectations:
        kind, _, value = expectation.partition(" ")
        if kind == "exit":
            assert result.returncode == int(value), result.stderr
            if int(value) != 0:
                assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        else:
            text = {"out": result.stdout, "err": result.stderr}[kind]
            assert re.search(value, text), f"no '{value}' in: {text}"


def test_the_recipe_reference_is_current():
    """docs/recipes.md is what `tritonforge run --options` prints."""
    printed = subprocess.run([BINARY, "run", "--options"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert (ROOT / "docs" / "recipes.md").read_text() == printed.stdout
