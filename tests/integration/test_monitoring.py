"""What Prometheus gets of a run, and that the shipped alerts and the Grafana dashboard ask only for what there is."""

import json
import os
import pathlib
import re
import subprocess
import urllib.request

import pytest
import yaml

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
FILES = ROOT / "docs/monitoring"
METRIC = re.compile(r"\btritonforge_[a-z0-9_]+\b")
STEP = {"stage": "rl", "step": 7, "time": 1700000000.5, "loss": 0.25, "pass_rate": 0.5, "collect_s": 3, "seconds": 4}


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory):
    run = tmp_path_factory.mktemp("run")
    roles = [
        {"name": "engine-0", "state": "green", "restarts": 2, "url": "http://127.0.0.1:23456"},
        {"name": "trainer", "state": "red", "restarts": 0, "url": "http://127.0.0.1:23457"},
    ]
    status = {"run": "small", "state": "running", "roles": roles, "progress": {"done": 7, "total": 14}}
    (run / "status.json").write_text(json.dumps(status))
    steps = [{"stage": "sft", "step": 3, "time": 1, "loss": 2.0}, {**STEP, "step": 6}, STEP]
    (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    process = subprocess.Popen(
        [BINARY, "serve", "dashboard", "--run", run, "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    url = next(m[0] for line in process.stderr if (m := re.search(r"http://127\.0\.0\.1:\d+", line)))
    yield url
    process.terminate()
    assert process.wait(60) == 0


def get(url):
    with urllib.request.urlopen(url, timeout=60) as reply:
        return reply.read().decode()


def test_the_last_step_and_the_roles_are_metrics(dashboard):
    values = dict(line.rsplit(" ", 1) for line in get(dashboard + "/metrics").splitlines() if line[:1] != "#")
    wanted = {
        "tritonforge_run_train_loss": 0.25,
        "tritonforge_run_sft_loss": 2,
        "tritonforge_run_passrate_correctness_pass_1": 0.5,
        "tritonforge_run_perf_wait_time_ratio": 0.75,
        'tritonforge_run_step{stage="rl"}': 7,
        'tritonforge_run_step_time_seconds{stage="rl"}': 1700000000.5,
        'tritonforge_run_role_up{role="engine-0"}': 1,
        'tritonforge_run_role_up{role="trainer"}': 0,
        'tritonforge_run_role_restarts{role="engine-0"}': 2,
        "tritonforge_run_progress": 0.5,
        "tritonforge_run_going_on": 1,
    }
    assert {name: float(values[name]) for name in wanted} == wanted


def test_prometheus_is_told_where_the_roles_are(dashboard):
    assert json.loads(get(dashboard + "/api/targets")) == [
        {"targets": ["127.0.0.1:23456"], "labels": {"role": "engine-0", "run": "small"}},
        {"targets": ["127.0.0.1:23457"], "labels": {"role": "trainer", "run": "small"}},
    ]
    config = yaml.safe_load((FILES / "prometheus.yml").read_text())
    assert config["scrape_configs"][0]["http_sd_configs"][0]["url"].endswith(":8080/api/targets")
    assert [str(FILES / name) for name in config["rule_files"]] == [str(FILES / "alerts.yml")]


def declared():
    """Every family that a server declares; a run's own, from the table in docs/metrics.md."""
    names = set()
    for role in ("engine", "router", "buffer", "evaluator", "trainer"):
        folder = {"evaluator": "evaluate", "buffer": "rollout", "trainer": "train"}.get(role, role)
        for source in (ROOT / "src" / folder).glob("*.cpp"):
            text = source.read_text()
            if f'"{role}"' in text:
                names |= {f"tritonforge_{role}_{name}" for name in re.findall(r'\{"([a-z_]+)", "', text)}
    for key in re.findall(r"\| `([a-z0-9_/@-]+)` (?=\|)", (ROOT / "docs/metrics.md").read_text()):
        for spelled in (key, "sft/" + key.rsplit("/", 1)[-1]):
            names.add("tritonforge_run_" + re.sub(r"[^A-Za-z0-9]", "_", spelled))
    return names


def test_alerts_and_dashboard_ask_for_what_there_is(dashboard):
    known = declared() | set(METRIC.findall(get(dashboard + "/metrics")))
    rules = [rule for group in yaml.safe_load((FILES / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
    board = json.loads((FILES / "grafana.json").read_text())
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(rules) >= 10 and len(board["panels"]) >= 18
    for expression in asked:
        names = METRIC.findall(expression)
        assert names, expression
        assert not [name for name in names if name not in known], expression
    assert all(rule["annotations"]["summary"] for rule in rules)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)
