"""The services of package/containers/compose.yaml as it starts them, each on a machine of its own (a network namespace)
that knows the others by their services' names: no container engine, but the commands, the names and the key are the
file's own."""

import pathlib
import re
import subprocess

import pytest
import yaml

from engine_process import BINARY, ROOT, Engine
from front_door import one_prompt_twice, two_items
from machines import Machine, remove_all, require_namespaces
from test_buffer import wait_until

KEY = "a-key-of-this-test"
SERVICES = yaml.safe_load((ROOT / "package/containers/compose.yaml").read_text())["services"]


class Service:
    """One of the file's services. `state` is what its containers have at /work."""

    def __init__(self, name, machine, state):
        self.name, self.machine = name, machine
        values = {"MODEL": "models/tiny-base"}
        words = [re.sub(r"\$\{(\w+)[^}]*\}", lambda m: values[m[1]], word) for word in SERVICES[name]["command"]]
        words = [word.replace("/work/", f"{state}/") for word in words]
        self.port = words[words.index("--port") + 1]
        self.log = machine.folder / "log"
        with self.log.open("w") as log:
            given = [f"TRITONFORGE_API_KEY={KEY}", f"TRITONFORGE_PEER_API_KEY={KEY}", f"TRITONFORGE_ROOT={ROOT}"]
            self.process = subprocess.Popen(
                machine.command("env", *given, BINARY, *words), cwd=state, stdout=log, stderr=log
            )
        self.server = Engine(self.process, f"http://{machine.address}:{self.port}")

    def ready(self):
        assert self.process.poll() is None, f"{self.name} ended:\n{self.log.read_text()}"
        try:
            return self.server.request("/health", timeout=60)[0] == 200
        except OSError:
            return False

    def ask(self, path, body, key=KEY):
        status, reply, _ = self.server.request(path, body, headers={"authorization": f"Bearer {key}"})
        return status, reply


@pytest.fixture
def services(tmp_path):
    require_namespaces()
    state = tmp_path / "state"
    state.mkdir()
    (state / "models").symlink_to(ROOT / "models")
    machines, made = [], {}
    hosts = []
    try:
        for number in range(1, len(SERVICES) + 1):
            machines.append(Machine(number, tmp_path))
        names = "".join(f"{machine.address} {name}\n" for machine, name in zip(machines, SERVICES, strict=True))
        for machine in machines:  # `ip netns exec` puts these in the place of /etc/hosts
            hosts.append(pathlib.Path("/etc/netns") / machine.space / "hosts")
            hosts[-1].parent.mkdir(parents=True)
            hosts[-1].write_text("127.0.0.1 localhost\n" + names)
        for machine, name in zip(machines, SERVICES, strict=True):
            made[name] = Service(name, machine, state)
        for service in made.values():
            wait_until(service.ready, f"{service.name} is ready")
        yield made, state
    finally:
        remove_all(machines)
        for service in made.values():
            service.process.wait()
        for path in hosts:
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def test_the_services_find_each_other_and_make_a_trajectory(services):
    made, state = services
    rollout = one_prompt_twice(state, max_tokens=64)
    for name in ("engine", "router", "evaluator", "buffer"):
        path = {"engine": "/generate", "router": "/generate", "evaluator": "/evaluate", "buffer": "/start_rollout"}[
            name
        ]
        assert made[name].ask(path, rollout, key="another")[0] == 401, name
    for item in two_items(made["buffer"].ask, rollout):
        assert [message["role"] for message in item["messages"]] == ["system", "user", "assistant"]
        assert item["messages"][2]["content"]
        assert "reward" in item
