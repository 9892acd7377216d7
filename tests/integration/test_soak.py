"""bench/soak.py for some seconds: mixed load, clients that hang up, slow readers, weight updates; nothing is lost.
Thirty minutes of it, memory and p99: docs/results.md."""

import subprocess
import sys

from engine_process import ROOT


def test_a_short_soak_loses_nothing(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "bench/soak.py",
            "--minutes",
            "0.15",
            "--updates",
            "5",
            "--log",
            str(tmp_path / "engine.log"),
        ],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost: 0\n" in done.stdout and "5 weight updates" in done.stdout
    assert "tokens/s generated" in (tmp_path / "engine.log").read_text()
