"""bench/evaluator_soak.py, shortened: good, bad and hostile candidates under kill -9 of random processes. Five thousand
of them, and what they left in memory: docs/results.md."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))


def soak(*options):
    done = subprocess.run(
        [sys.executable, ROOT / "bench/evaluator_soak.py", *options], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("kill -9:")[1], done.stdout


@pytest.mark.parametrize("trials", [[], ["--drawn"]])
def test_a_short_soak_gives_every_verdict_once(trials):
    killed, said = soak("--evaluations", "40", "--server-kills", "8", *trials)
    assert "40 verdicts, each given once" in said
    assert "'Python parent'" in killed and "'child'" in killed, said  # somebody was killed


def test_the_death_of_a_compile_servers_python_parent_costs_no_verdict():
    killed, said = soak("--evaluations", "16", "--compile-server", "--parent-kills", "2")
    assert "16 verdicts, each given once" in said
    assert "compile server's Python parent" in killed, said
