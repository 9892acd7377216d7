"""docs/architecture.md names a test for each claim; here each of them must be there."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
SHORT = {"run": "test_run.py", "chaos": "test_chaos.py"}


def named_tests():
    text = (ROOT / "docs/architecture.md").read_text()
    tables = text[text.index("## What shows it") :]
    return sorted(
        {name for row in re.findall(r"^\|.*\|([^|]*)\|$", tables, re.M) for name in re.findall("`(.*?)`", row)}
    )


def is_there(name):
    if "::" in name:
        file, case = name.split("::")
        files = list((ROOT / "tests").rglob(SHORT.get(file, file)))
        return any(re.search(rf"^def {case}\(", path.read_text(), re.M) for path in files)
    if re.fullmatch(r"\w+\.\w+", name):
        suite, case = name.split(".")
        test = re.compile(rf"^TEST(_F|_P)?\({suite},\s*{case}\)", re.M)
        folders = (ROOT / "tests/unit", ROOT / "tests/gpu")
        return any(test.search(path.read_text()) for folder in folders for path in folder.rglob("*.cpp"))
    return (ROOT / name).exists() or name == "usage" or name.startswith("make ")


def test_every_test_that_is_named_is_there():
    names = named_tests()
    assert len(names) > 50
    assert [name for name in names if not is_there(name)] == []


def said(*words):
    return subprocess.run([BINARY, *words], capture_output=True, text=True, check=True).stdout


def subcommands(*of):
    listed = said(*of, "--help").partition("Subcommands:")[2]
    return re.findall(r"^  (\w+) ", listed, re.M)


def test_every_command_has_an_example():
    commands = subcommands()
    assert {"run", "bench", "evaluate", "serve", "data"} <= set(commands)
    leaves = [
        (command, *deeper) for command in commands for deeper in ([(one,) for one in subcommands(command)] or [()])
    ]
    assert [leaf for leaf in leaves if not re.search("examples?:", said(*leaf, "--help"), re.I)] == []
