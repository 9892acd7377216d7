"""The start-up self-test tried to break out; nothing may have succeeded where the layers are there."""

import subprocess

import pytest
from ports import reserved_port

from evaluator_server import BINARY


def test_layers_and_attempts(evaluator):
    detail = evaluator.get("/health")["report"]
    assert set(detail["sandbox"]) >= {"namespaces", "mounts", "landlock", "seccomp", "rlimits", "control_group"}
    assert "fork_bomb" in detail["self_test"] and "connect" in detail["self_test"]
    layers = {name: state for name, state in detail["sandbox"].items() if name != "control_group"}
    if all(str(state).startswith("enforced") for state in layers.values()):
        assert detail["breaches"] == [], detail
    for name, outcome in detail["self_test"].items():
        assert outcome != "succeeded" or name in detail["breaches"] or name == "read_home"


def test_strict_judges_nobody_without_a_control_group(evaluator):
    state = str(evaluator.get("/health")["report"]["sandbox"]["control_group"])
    if state.startswith("enforced"):
        pytest.skip("a control group is delegated here")
    command = [BINARY, "serve", "evaluator", "--port", str(reserved_port()), "--sandbox", "strict"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0 and "ready" not in refused.stdout, refused
    assert "control_group" in refused.stderr, refused
