"""The start-up self-test tried to break out; nothing may have succeeded where the layers are there."""


def test_layers_and_attempts(evaluator):
    detail = evaluator.get("/health")["report"]
    assert set(detail["sandbox"]) >= {"namespaces", "mounts", "landlock", "seccomp", "rlimits", "control_group"}
    assert "fork_bomb" in detail["self_test"] and "connect" in detail["self_test"]
    layers = {name: state for name, state in detail["sandbox"].items() if name != "control_group"}
    if all(str(state).startswith("enforced") for state in layers.values()):
        assert detail["breaches"] == [], detail
    for name, outcome in detail["self_test"].items():
        assert outcome != "succeeded" or name in detail["breaches"] or name == "read_home"
