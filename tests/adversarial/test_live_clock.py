"""What the cheats of `# gains:` do to live mode's clock, on a device that is pretended (live_without_a_gpu.py): each
would gain what it says, or the claims of test_live.py would be those of honest work."""

import json
import pathlib
import subprocess
import sys

import pytest

from test_corpus import SOUND_TIME, TIMING, line, parts

GAINS = [path for path in TIMING if line(path, "gains")]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    for path in [*GAINS, SOUND_TIME]:
        (folder / path.name).write_text(parts(path)[1])
    program = pathlib.Path(__file__).parent / "live_without_a_gpu.py"
    told = subprocess.run([sys.executable, program, *sorted(folder.iterdir())], capture_output=True, text=True)
    assert told.returncode == 0, told
    return {pathlib.Path(row["path"]).stem: row for row in map(json.loads, told.stdout.splitlines())}


def test_honest_work_is_timed_behind_a_whole_flush(said):
    sound = said["sound"]
    assert sound["ms"] >= 1 and sound["right"] and sound["flushed"] == sound["all"], sound


@pytest.mark.parametrize("path", GAINS, ids=lambda path: path.stem)
def test_a_cheat_gains_what_it_says(said, path):
    found, gains = said[path.stem], line(path, "gains")
    assert found["right"], found
    if gains == "time":
        assert found["ms"] < said["sound"]["ms"] / 2, found
    else:
        assert gains == "a warm cache" and found["ms"] == said["sound"]["ms"], found
        assert found["flushed"] < found["all"] / 100, found


def test_both_kinds_are_there():
    assert {line(path, "gains") for path in GAINS} == {"time", "a warm cache"}
    assert sum(path.stem.startswith("l7") for path in GAINS) == 2
