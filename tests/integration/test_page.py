"""The page in Debian's Chromium: page/test_*.py in an environment of their own (requirements/browser.txt)."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
FOLDER = pathlib.Path(__file__).parent / "page"


def test_in_a_browser():
    if not (browser := shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("no Chromium on this machine")
    python = subprocess.run([ROOT / "requirements/install", "--browser"], capture_output=True, text=True, timeout=500)
    assert python.returncode == 0, python.stderr
    done = subprocess.run(
        [python.stdout.strip(), "-m", "pytest", "-q", "--timeout=120", "-p", "no:cacheprovider", FOLDER],
        env={**os.environ, "BROWSER_BINARY": browser, "TRITONFORGE_BINARY": BINARY},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
