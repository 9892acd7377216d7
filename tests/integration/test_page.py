"""What the page says of a run: its script in Node, with as much of a document as it touches."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
DOCUMENT = """
const made = [];
function node(tag) {
  const one = { tag, children: [], style: {}, dataset: {}, hidden: false, textContent: '', className: '',
    append(...more) { this.children.push(...more); }, replaceChildren(...all) { this.children = all; },
    setAttribute() {}, addEventListener() {}, get firstElementChild() { return this.children[0] || null; } };
  made.push(one);
  return one;
}
const ids = { 'inline-data': Object.assign(node('script'), { textContent: process.argv[2] }) };
globalThis.document = {
  getElementById: (id) => (ids[id] ||= node('div')), createElement: node, createElementNS: (_, tag) => node(tag) };
const text = (one) => [one.textContent, ...one.children.map(text)].join(' ');
"""
ANSWER = """
console.log(JSON.stringify({ stage: ids.stage.textContent, stages: ids.stages.textContent,
  progress: !ids.progress.hidden,
  left: ids['progress-text'].textContent, roles: ids.roles.children.map((card) => card.className),
  rows: ids['result-rows'].children.map(text) }));
"""
ROW = {"name": "rl", "label": "RL", "turns": 3, "samples": 9, "failed": 2, "compile_rate": 1, "pass_at_1": 0.5}


def page(tmp_path, state, age_s=0, **status):
    if not (program := shutil.which("node")):
        pytest.skip("no Node here")
    script = tmp_path / "page.js"
    script.write_text(DOCUMENT + (ROOT / "web/app.js").read_text().replace("'use strict';", "") + ANSWER)
    status |= {"run": "small", "state": state, "stage": "rl", "time": time.time() - age_s, "eta_s": 40}
    status |= {"progress": {"done": 8, "total": 12}, "roles": [{"name": "trainer", "state": "green"}]}
    result = {"stages": [ROW | {"ci95": [0.25, 0.75], "single_turn_pass_at_k": 0.625}]}
    data = {"status": status, "steps": [], "trajectories": [], "result": result}
    said = subprocess.run([program, str(script), json.dumps(data)], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_a_run_that_goes_on(tmp_path):
    shown = page(tmp_path, "running", done=["data", "bench-base"], left=["rl", "bench-rl"])
    assert shown["stages"] == "done: data, bench-base · to do: rl, bench-rl"
    assert (shown["stage"], shown["progress"], shown["roles"]) == ("stage: rl", True, ["role green"])


def test_the_time_left_is_of_the_stage_and_of_the_run(tmp_path):
    assert page(tmp_path, "running")["left"] == "8 of 12, 0:40 left in this stage"
    assert page(tmp_path, "running", run_eta_s=40)["left"] == "8 of 12, 0:40 left in this stage"
    assert page(tmp_path, "running", run_eta_s=100)["left"].endswith("left in this stage, in all 1:40")
    least = page(tmp_path, "running", run_eta_s=40, run_eta_is_least=True, started=0, done=["data"])
    assert least["left"].endswith("left in this stage, in all more than 0:40")
    assert least["stages"].startswith("started: ") and least["stages"].endswith("done: data")


def test_a_run_that_was_killed_is_not_alive(tmp_path):
    shown = page(tmp_path, "running", age_s=60)
    assert shown["stage"].startswith("no sign of life since") and "--resume" in shown["stage"]
    assert (shown["progress"], shown["roles"]) == (False, ["role "])


def test_a_run_that_ended_says_how(tmp_path):
    assert page(tmp_path, "finished", age_s=60)["stage"] == "finished"
    assert page(tmp_path, "stopped", reason="Interrupt")["stage"] == "stopped (Interrupt): --resume goes on"
    shown = page(tmp_path, "failed", reason="disk full")
    assert (shown["stage"], shown["progress"]) == ("failed: disk full", False)


def test_the_table_counts_failures_of_ours_and_shows_as_many_single_turns(tmp_path):
    cells = page(tmp_path, "finished")["rows"][0]
    assert " ".join(cells.split()) == "RL 3 50.0 % 25.0 – 75.0 % 62.5 % 100.0 % 9 2"
