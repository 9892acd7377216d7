import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made_runs

BINARY = os.environ["TRITONFORGE_BINARY"]


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Four runs: one that goes on, one that ended, one that was killed, and a long one."""
    folder = tmp_path_factory.mktemp("runs")
    gpu = {"index": 0, "name": "H100", "use": 0.83, "memory_used_gib": 61.2, "memory_total_gib": 79.6}
    ahead = time.time() + 3600  # nobody writes the status again: it must not grow old in a test
    made_runs.write_run(folder / "first", gpus=[gpu], time=ahead)
    made_runs.write_run(folder / "second", seed=2, temperature=0.7, state="finished")
    made_runs.write_run(folder / "killed", steps=5, time=time.time() - 60)
    made_runs.write_run(folder / "long", steps=1000, repeat=25, time=ahead)
    return folder


def serve(*arguments, key=""):
    process = subprocess.Popen(
        [BINARY, "serve", "dashboard", *map(str, arguments), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TRITONFORGE_API_KEY": key},
    )
    url = next(m[0] for line in process.stderr if (m := re.search(r"http://127\.0\.0\.1:\d+", line)))
    yield url
    process.terminate()
    assert process.wait(60) == 0


@pytest.fixture(scope="session")
def dashboard(runs):
    yield from serve("--runs", runs)


@pytest.fixture
def dashboard_of_one(runs):
    yield from serve("--run", runs / "first")


@pytest.fixture
def keyed_dashboard(runs):
    yield from serve("--runs", runs, key="open-sesame")


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=os.environ["BROWSER_BINARY"], args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, dashboard):
    """visit("/curves?run=first") opens that view; what a script throws or the console calls an error fails the test."""
    pages, errors = [], []

    def opened(place, url=dashboard, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.goto(f"{url}#{place}" if place else url)
        page.wait_for_selector("#content > *")
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert errors == []


@pytest.fixture
def update_status(runs):
    def update(name, **changes):
        file = runs / name / "status.json"
        now = json.loads(file.read_text()) | changes
        (runs / name / "status.tmp").write_text(json.dumps(now))
        os.rename(runs / name / "status.tmp", file)

    return update
