"""bench/evaluator_soak.py, shortened: good, bad and hostile candidates under kill -9 of random processes. Five thousand
of them, and what they left in memory: docs/results.md."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))


def test_a_short_soak_gives_every_verdict_once():
    done = subprocess.run(
        [sys.executable, ROOT / "bench/evaluator_soak.py", "--evaluations", "60", "--server-kills", "8"],
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 verdicts, each given once" in done.stdout
    assert "'child'" in done.stdout.split("kill -9:")[1], done.stdout  # somebody was killed
