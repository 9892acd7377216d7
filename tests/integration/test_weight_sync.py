"""Weights come to an engine in SGLang's ways from any trainer, and from ours on another machine: over TCP, or in rounds
from all of its ranks."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import pickle
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from engine_process import BINARY, TINY_TOKENIZER, Engine, engine_process, make_model
from machines import Machine, ip, require_namespaces, weights_tls
from sglang_client import broadcast, buckets, describe, init_custom_process_group

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import reserved_port  # beside the folders of tests

PROMPT = [5, 17, 300, 42, 9, 1000]
TINY = {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two models of one shape: (folder, transformers' model) of each."""
    folder = tmp_path_factory.mktemp("models")
    return [(folder / str(seed), make_model(folder / str(seed), seed=seed)) for seed in (1, 2)]


def tokens(engine):
    return engine.generate(PROMPT, **TINY)["output_ids"]


@pytest.fixture(scope="module")
def expected(models):
    found = []
    for folder, _ in models:
        with engine_process(folder) as engine:
            found.append(tokens(engine))
    assert found[0] != found[1]
    return found


def asking(engine, path, body):
    """A request in a thread of its own; what is called returns its (status, reply)."""
    said = []

    def ask():
        with contextlib.suppress(OSError, http.client.HTTPException):  # a process that is killed says nothing
            said.append(engine.request(path, body)[:2])

    thread = threading.Thread(target=ask)
    thread.start()

    def ended():
        thread.join(120)
        assert said, f"{path} did not answer"
        return said[0]

    return ended


@contextlib.contextmanager
def doomed_engine(model):
    """One that a test may kill."""
    command = [BINARY, "serve", "engine", "--model", str(model), "--port", "0", "--threads", "1"]
    process = subprocess.Popen(
        [*command, "--kv-cache-tokens", "4096"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        for line in process.stdout:
            if found := re.search(r"on (http://[^\s:]+:\d+)", line):
                break
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        yield Engine(process, found[1])
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def group_with(engines, name="slime-pp_0", backend="gloo"):
    """As a trainer's rank 0: the engines are told to join, and joined."""
    port = reserved_port()
    place = {"master_address": "127.0.0.1", "master_port": port, "world_size": len(engines) + 1}
    joining = [
        asking(
            engine,
            "/init_weights_update_group",
            place | {"rank_offset": rank, "group_name": name, "backend": backend},
        )
        for rank, engine in enumerate(engines, 1)
    ]
    group = init_custom_process_group("127.0.0.1", port, len(engines) + 1, 0, name, backend)
    assert [joined()[0] for joined in joining] == [200] * len(engines)
    yield group
    for engine in engines:
        engine.post("/destroy_weights_update_group", {"group_name": name})
    torch.distributed.destroy_process_group(group)


def send(engines, group, tensors, flat=False, **fields):
    body = (
        describe(tensors) | {"group_name": "slime-pp_0", "load_format": "flattened_bucket" if flat else None} | fields
    )
    taking = [asking(engine, "/update_weights_from_distributed", body) for engine in engines]
    broadcast(tensors, group, flat)
    return [taken() for taken in taking]


def test_a_stock_trainers_group_updates_two_engines(models, expected):
    """init, pause, buckets, continue, destroy: slime's calls, and the second time the group is made anew."""
    (first, _), (_, model) = models
    with engine_process(first) as one, engine_process(first) as two:
        for flat, source, version in ((False, model, "7"), (True, models[0][1], "8")):
            with group_with([one, two]) as group:
                for engine in (one, two):
                    engine.post("/pause_generation", {})
                for part in buckets(source, 3):
                    for status, reply in send([one, two], group, part, flat, weight_version=version, flush_cache=False):
                        assert (status, reply["success"], reply["weight_version"]) == (200, True, version), reply
                        assert set(reply["checksums"]) == {name for name, _ in part}
                for engine in (one, two):
                    engine.post("/flush_cache", {})
                    engine.post("/continue_generation", {})
            for engine in (one, two):
                answer = engine.generate(PROMPT, **TINY)
                assert answer["output_ids"] == expected[1 if version == "7" else 0]
                assert answer["meta_info"]["weight_version"] == version


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs: a group over NCCL needs two")
def test_a_stock_trainers_group_over_nccl_updates_an_engine_on_another_gpu(models):
    """torch.distributed's rank 0 on the first GPU, SGLang's default backend."""
    (first, _), (second, model) = models
    flags = ["--device", "cuda:1", "--no-gpu-kernels"]  # which take no heads of 16
    with engine_process(second, *flags) as engine:
        wanted = tokens(engine)
    torch.cuda.set_device(0)
    with engine_process(first, *flags) as engine:
        assert tokens(engine) != wanted
        for flat, version in ((False, "7"), (True, "8")):  # the group is made anew
            with group_with([engine], backend="nccl") as group:
                engine.post("/pause_generation", {})
                for part in buckets(model, 3):
                    there = [(name, tensor.cuda().bfloat16()) for name, tensor in part]
                    ((status, reply),) = send([engine], group, there, flat, weight_version=version)
                    assert (status, reply["success"]) == (200, True), reply
                engine.post("/continue_generation", {})
            answer = engine.generate(PROMPT, **TINY)
            assert answer["output_ids"] == wanted and answer["meta_info"]["weight_version"] == version


def test_what_a_group_cannot_take_is_refused_before_it_waits(models):
    (folder, model), _ = models
    with engine_process(folder) as engine:

        def refusal(path, body):
            status, reply, _ = engine.request(path, body)
            return status, reply.get("message") or reply["error"]["message"]

        norm = [("model.norm.weight", model.model.norm.weight.data)]
        status, said = refusal("/update_weights_from_distributed", describe(norm))
        assert status == 404 and "no group 'weight_update_group'" in said
        place = {"master_address": "127.0.0.1", "master_port": reserved_port(), "rank_offset": 1, "world_size": 2}
        status, said = refusal("/init_weights_update_group", place)
        assert status == 422 and '"backend": "gloo"' in said  # nccl is SGLang's default
        assert refusal("/init_weights_update_group", place | {"backend": "gloo", "rank_offset": 2})[0] == 400
        with group_with([engine]):
            for wrong in (
                describe([("model.norm.wait", norm[0][1])]),
                describe([(norm[0][0], torch.ones(63))]),
                describe(norm) | {"dtypes": ["float99"]},
                describe(norm) | {"shapes": []},
                describe(norm) | {"load_format": "dtensor"},
            ):
                status, said = refusal("/update_weights_from_distributed", wrong | {"group_name": "slime-pp_0"})
                assert status in (400, 422), said
        assert engine.get("/get_weight_version")["weight_version"] == "0"


def test_a_group_is_joined_once(models):
    (folder, model), _ = models
    with engine_process(folder) as engine:
        port = reserved_port()
        place = {"master_address": "127.0.0.1", "master_port": port, "world_size": 2, "rank_offset": 1}
        body = place | {"group_name": "twice", "backend": "gloo"}
        joining = [asking(engine, "/init_weights_update_group", body) for _ in range(2)]
        group = init_custom_process_group("127.0.0.1", port, 2, 0, "twice")
        assert sorted(joined()[0] for joined in joining) == [200, 409]
        part = buckets(model, 1)[0]
        assert [status for status, _ in send([engine], group, part, group_name="twice")] == [200]
        torch.distributed.destroy_process_group(group)


TRAINER_THAT_DIES = """
import os, sys
sys.path.insert(0, sys.argv[1])
from sglang_client import init_custom_process_group
init_custom_process_group("127.0.0.1", int(sys.argv[2]), 2, 0, "dying")
print("joined", flush=True)
sys.stdin.read()
"""


def test_a_trainer_that_dies_costs_its_group_and_nothing_else(models, expected):
    (folder, model), _ = models
    port = reserved_port()
    with engine_process(folder) as engine:
        place = {"master_address": "127.0.0.1", "master_port": port, "rank_offset": 1, "world_size": 2}
        joining = asking(engine, "/init_weights_update_group", place | {"backend": "gloo", "group_name": "dying"})
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAINER_THAT_DIES, os.path.dirname(__file__), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert trainer.stdout.readline() == b"joined\n"
        assert joining()[0] == 200
        part = buckets(model, 1)[0]
        taking = asking(engine, "/update_weights_from_distributed", describe(part) | {"group_name": "dying"})
        engine.until(lambda: tokens(engine) == expected[0], "tokens while it waits for weights")
        trainer.kill()
        trainer.wait()
        status, reply = taking()
        assert status == 503 and "group 'dying'" in reply["message"], reply
        assert tokens(engine) == expected[0]
        assert engine.request("/update_weights_from_distributed", describe(part) | {"group_name": "dying"})[0] == 404


def test_weights_in_the_body_are_safetensors_and_never_a_pickle(models, expected):
    (folder, old), (other, model) = models
    state = {name: tensor.data.contiguous() for name, tensor in model.named_parameters()}
    with engine_process(folder) as engine:
        pickled = base64.b64encode(pickle.dumps([("model.norm.weight", 1)])).decode()
        status, reply, _ = engine.request("/update_weights_from_tensor", {"serialized_named_tensors": [pickled]})
        said = reply["error"]["message"]
        assert status == 422 and "is a pickle" in said and "safetensors" in said
        status, reply, _ = engine.request("/update_weights_from_tensor", {"serialized_named_tensors": ["no base64!"]})
        assert status == 400, reply
        assert tokens(engine) == expected[0]

        names = sorted(state)
        for part in (names[:5], names[5:]):
            text = base64.b64encode(to_safetensors({name: state[name] for name in part})).decode()
            reply = engine.post(
                "/update_weights_from_tensor",
                {"serialized_named_tensors": [text], "load_format": None, "flush_cache": True, "weight_version": "3"},
            )
            assert set(reply["checksums"]) == set(part)
        assert tokens(engine) == expected[1]
        assert engine.get("/get_weight_version")["weight_version"] == "3"
        found = engine.post("/get_weights_by_name", {"name": "model.norm.weight", "truncate_size": 4})
        assert found == pytest.approx(state["model.norm.weight"].tolist()[:4])
        assert engine.get("/get_weights_by_name?name=model.embed_tokens.weight&truncate_size=1") == [
            pytest.approx(state["model.embed_tokens.weight"][0].tolist())
        ]

        # The bytes themselves; cut off they change nothing.
        raw = to_safetensors({name: tensor.data.contiguous() for name, tensor in old.named_parameters()})

        def post_raw(content):
            url = engine.url + "/update_weights_from_tensor?weight_version=4"
            request = urllib.request.Request(url, content, {"content-type": "application/x-safetensors"})
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)

        assert post_raw(raw[:-1]) is None and tokens(engine) == expected[1]
        assert post_raw(raw)["weight_version"] == "4" and tokens(engine) == expected[0]

        # SGLang's fields of an update from disk.
        body = {"model_path": str(other), "load_format": "auto", "flush_cache": True, "abort_all_requests": False}
        assert engine.post("/update_weights_from_disk", body | {"weight_version": "5"})["weight_version"] == "5"
        assert tokens(engine) == expected[1]


TRAINED = {"kind": "sft", "step": 1, "sequences": [{"tokens": [5, 6, 7, 8], "loss_mask": [0, 1, 1, 1]}]}


@contextlib.contextmanager
def our_trainer(folder, *flags, **shape):
    """A trainer after one step, and the folder of the model that it began with."""
    from test_trainer import Trainer

    with Trainer(folder, *flags, shape={"vocab_size": 1544} | shape) as trainer:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (trainer.folder / "model" / name).write_bytes((TINY_TOKENIZER / name).read_bytes())
        start = trainer.post("/export", {"folder": str(folder / "start")})["path"]
        assert trainer.post("/step", TRAINED)["step"] == 1
        yield trainer, start


@contextlib.contextmanager
def sglang_servers(count, *key):
    """Servers of SGLang's protocol (mock_sglang.py), each a process as SGLang's are."""
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "mock_sglang.py"), *key]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        yield [Engine(process, process.stdout.readline().strip()) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_our_trainer_drives_sglangs_own_servers(tmp_path):
    """Two servers of SGLang's protocol and an engine of ours take our trainer's weights, by its one call."""
    with (
        sglang_servers(2) as mocks,
        our_trainer(tmp_path) as (trainer, start),
        engine_process(start) as engine,
    ):
        urls = [mocks[0].url, mocks[1].url, engine.url]
        push = {"to": "sglang", "engines": urls, "bucket_bytes": 20000, "step": 1}
        mocks[0].post("/generating", {"requests": 3})
        assert trainer.post("/publish_weights", push | {"version": 1}) == {"version": 1}
        kept = load_file(trainer.post("/export", {"folder": str(tmp_path / "end")})["path"] + "/model.safetensors")
        for mock in mocks:
            mock.post("/save", {"path": str(tmp_path / "came.safetensors")})
            came = load_file(tmp_path / "came.safetensors")
            assert set(came) == set(kept)
            assert all(torch.equal(came[name], kept[name]) for name in kept)
            said = mock.get("/mock")
            assert said["weight_version"] == "1"
            assert said["calls"][:3] == ["/init_weights_update_group", "/pause_generation", "/flush_cache"]
            assert said["calls"].count("/update_weights_from_distributed") > 3
            assert said["calls"][-1] == "/continue_generation"
        assert engine.get("/get_weight_version")["weight_version"] == "1"
        assert engine.post("/get_weights_by_name", {"name": "model.norm.weight"}) == kept["model.norm.weight"].tolist()

        # One that refuses is named, all are let go on, and the next push makes the group anew.
        mocks[1].post("/fail", {"fails": True})
        reply = trainer.post("/publish_weights", push | {"version": 2})
        assert "error" in reply and mocks[1].url in str(reply) and "no room" in str(reply), reply
        assert all(mock.get("/mock")["calls"][-1] == "/continue_generation" for mock in mocks)
        mocks[1].post("/fail", {"fails": False})
        assert trainer.post("/publish_weights", push | {"version": 3}) == {"version": 3}
        assert [mock.get("/mock")["weight_version"] for mock in mocks] == ["3", "3"]
        assert mocks[0].get("/mock")["calls"].count("/init_weights_update_group") == 2


def test_a_push_leaves_requests_and_the_server_that_has_them_alive(tmp_path):
    """SGLang 0.5.15 ends where an update is to flush its cache and a request waits, as it does paused by retract."""
    with sglang_servers(1) as (mock,), our_trainer(tmp_path) as (trainer, _):
        push = {"to": "sglang", "engines": [mock.url], "step": 1}
        mock.post("/generating", {"requests": 3})
        assert trainer.post("/publish_weights", push | {"version": 1, "pause": "in_place"}) == {"version": 1}
        reply = trainer.post("/publish_weights", push | {"version": 2, "pause": "retract"})
        assert reply["status"] == 409 and "Flush cache failed" in reply["error"]["message"], reply
        said = mock.get("/mock")
        assert said["weight_version"] == "1" and said["calls"][-1] == "/continue_generation"
        assert trainer.post("/publish_weights", push | {"version": 3, "pause": "abort"}) == {"version": 3}


def test_servers_behind_a_key_are_sent_that_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITONFORGE_PEER_API_KEY", "sglangs-key")
    with sglang_servers(1, "sglangs-key") as (mock,), our_trainer(tmp_path) as (trainer, _):
        push = {"to": "sglang", "engines": [mock.url], "step": 1, "version": 1}
        assert trainer.post("/publish_weights", push) == {"version": 1}


class Remote(Engine):
    """An engine on a machine of its own, whose key it asks for."""

    key = "engines-key"

    def __init__(self, machine, model, weights_key):
        self.machine, self.model, self.weights_key = machine, model, weights_key
        self.start()

    def start(self):
        flags = ["--model", str(self.model), "--host", self.machine.address, "--port", "30001"]
        self.log = open(self.machine.folder / "engine.txt", "a")  # noqa: SIM115  # the process writes to it
        self.process = subprocess.Popen(
            self.machine.command(BINARY, "serve", "engine", *flags, "--kv-cache-tokens", "4096", "--threads", "1"),
            env=os.environ | {"TRITONFORGE_WEIGHTS_KEY": self.weights_key, "TRITONFORGE_API_KEY": self.key},
            stdout=self.log,
            stderr=self.log,
        )
        super().__init__(self.process, f"http://{self.machine.address}:30001")

        def up():
            assert self.process.poll() is None, (self.machine.folder / "engine.txt").read_text()
            with contextlib.suppress(OSError):
                return super(Remote, self).request("/health")[0] == 200

        self.until(up, "the engine answers")

    def request(self, path, body=None, method=None, timeout=120, headers=()):
        return super().request(path, body, method, timeout, dict(headers) | {"authorization": f"Bearer {self.key}"})


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Two machines whose links carry 200 Mbit/s each."""
    require_namespaces()
    folder = tmp_path_factory.mktemp("machines")
    made = [Machine(number, folder) for number in (1, 2)]
    try:
        for machine in made:
            shaped = f"tc qdisc add dev {machine.link} root tbf rate 200mbit burst 256kb latency 50ms"
            subprocess.run(shaped.split(), check=True)
        yield made
    finally:
        for machine in made:
            machine.remove()
        ip("link", "del", Machine.bridge)


@pytest.mark.parametrize("way", ["group", "tcp", "tls"])
def test_a_killed_engine_delays_nobody_and_catches_up(machines, tmp_path, monkeypatch, way):
    """Our trainer publishes to engines of two other machines; one is killed at a random instant of each transfer. tls:
    over TCP, with certificates on both sides."""
    sealed = way == "tls"
    if sealed:
        way = "tcp"
        for name, file in weights_tls(tmp_path, Machine.head, *(machine.address for machine in machines)).items():
            monkeypatch.setenv(name, file)
    seed = int(os.environ.get("TRITONFORGE_TEST_SEED", time.time_ns() % 10**6))
    print(f"TRITONFORGE_TEST_SEED={seed}")
    moment = random.Random(seed)
    monkeypatch.setenv("TRITONFORGE_WEIGHTS_KEY", "runs-key")
    shape = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 6}
    with contextlib.ExitStack() as stack:
        trainer, start = stack.enter_context(our_trainer(tmp_path, "--weights-host", Machine.head, **shape))
        engines = [Remote(machine, start, "runs-key") for machine in machines]
        for engine in engines:
            stack.callback(engine.machine.kill)

        def offer(version):
            """What the orchestrator sends; the path of a file that these machines would not see is left out."""
            published = trainer.post("/publish_weights", {"version": version, "to": "shm" if way == "tcp" else way})
            return {key: published[key] for key in ("checksums", way)} | {"weight_version": str(version)}

        def take(engine, body):
            """The bytes that came over its link for that."""
            link = pathlib.Path(f"/sys/class/net/{engine.machine.link}/statistics/tx_bytes")
            before = int(link.read_text())
            assert engine.post("/update_weights_from_tensor", body)["checksums"] == body["checksums"]
            return int(link.read_text()) - before

        def take_and_die(engine, body):
            with contextlib.suppress(OSError, http.client.HTTPException):
                engine.request("/update_weights_from_tensor", body)

        begun = time.monotonic()
        alone, together = take(engines[0], offer(1)), []
        lasts = time.monotonic() - begun  # of rounds: with the second in which others may come
        for version in (2, 3):
            body = offer(version)
            dying = threading.Thread(target=take_and_die, args=(engines[1], body))
            dying.start()
            killer = threading.Timer(moment.uniform(0.1, 0.9) * lasts, engines[1].machine.kill)
            killer.start()
            together.append(take(engines[0], body))
            killer.join()
            dying.join()
            engines[1].process.wait()
            engines[1].start()
            take(engines[1], body)  # it catches up by the same offer
            assert engines[1].get("/get_weight_version")["weight_version"] == str(version)
        # A neighbour's death costs no second transfer and no time-out.
        assert max(together) < 1.5 * alone, (alone, together)
        said = (engines[0].machine.folder / "engine.txt").read_text()
        assert "Timed out" not in said and "nothing came for" not in said, said

        # A stranger is told nothing.
        with socket.create_connection((body[way]["host"], body[way]["port"])) as stranger:
            stranger.sendall(b"x" * 200 if way == "tcp" else b"POST /join HTTP/1.1\r\nhost: x\r\n\r\n")
            stranger.settimeout(20)
            said = stranger.recv(4096)
            if way == "tcp":
                with contextlib.suppress(ConnectionResetError):
                    said += stranger.recv(4096)
                assert b"TFBULK1" not in said if sealed else said.startswith(b"TFBULK1\n") and len(said) == 24
            else:
                assert said.startswith(b"HTTP/1.1 401")
        # Nor is there anything where the trainer has gone.
        assert trainer.stop() == 0
        status, reply, _ = engines[0].request("/update_weights_from_tensor", body)
        assert status == 404 and "Connection refused" in reply["message"], reply
        assert engines[0].get("/get_weight_version")["weight_version"] == "3"


LAYOUTS = [{"tp": 2}, {"pp": 2}, {"tp": 2, "pp": 2}, {"tp": 2, "cp": 2}, {"dp": 2}]


@pytest.mark.parametrize("degrees", LAYOUTS, ids=str)
def test_ranks_of_any_layout_send_their_parts_while_engines_die(tmp_path, degrees):
    """No rank has the whole model; engines get it in one round, also after kill -9 or SIGSTOP of one of them at a
    random instant, and one that starts late gets it before it serves. One engine has a rank for each half, one rounds
    what comes."""
    from test_ranks import Ranks

    seed = int(os.environ.get("TRITONFORGE_TEST_SEED", time.time_ns() % 10**6))
    print(f"TRITONFORGE_TEST_SEED={seed}")
    moment = random.Random(seed)
    shape = {"vocab_size": 1544, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4}
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(Ranks(tmp_path, degrees, shape=shape))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (ranks.folder / "model" / name).write_bytes((TINY_TOKENIZER / name).read_bytes())
        start = ranks.post("/export", {"folder": str(tmp_path / "start")})["path"]
        forms = ((), ("--tp", "2"), ("--tp", "2", "--weight-dtype", "fp8_e4m3"))
        engines = [stack.enter_context(engine_process(start, *form)) for form in forms]
        for version in (1, 2, 3):
            assert ranks.step(version)["step"] == version
            published = ranks.post("/publish_weights", {"version": version, "to": "group", "step": version})
            assert "path" not in published or not published["path"]
            offer = {"group": published["group"], "checksums": published["checksums"], "weight_version": str(version)}
            with doomed_engine(start) as doomed:
                dying = asking(doomed, "/update_weights_from_tensor", offer)
                taking = [asking(engine, "/update_weights_from_tensor", offer) for engine in engines]
                killer = threading.Timer(
                    moment.uniform(0.9, 1.3), doomed.process.send_signal, [moment.choice([9, signal.SIGSTOP])]
                )
                killer.start()
                for taken in taking:
                    status, reply = taken()
                    assert (status, reply["weight_version"]) == (200, str(version)), reply
                    assert reply["checksums"] == published["checksums"]
                killer.join()
                doomed.process.kill()
                with contextlib.suppress(AssertionError):
                    dying()
        # The trainer has gone on meanwhile; what was published is still to be had, and is what it then was.
        assert ranks.step(4)["step"] == 4
        with engine_process(start) as late:
            assert late.post("/update_weights_from_tensor", offer)["checksums"] == published["checksums"]
            assert tokens(late) == tokens(engines[0]) == tokens(engines[1])
            with engine_process(start, *forms[2]) as rounding:
                assert rounding.post("/update_weights_from_tensor", offer)["checksums"] == published["checksums"]
                assert tokens(rounding) == tokens(engines[2])
        shared = ranks.post("/publish_weights", {"version": 5, "step": 4})
        whole = ranks.post("/publish_weights", {"version": 5, "to": "group", "step": 4})
        assert whole["checksums"] == shared["checksums"] != published["checksums"]
        status, reply, _ = engines[0].request("/update_weights_from_tensor", offer)
        assert status == 404 and "weights 3 are not offered, 5 are" in reply["message"], reply
