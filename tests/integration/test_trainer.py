"""`tritonforge serve trainer` as a real process: it serves, is killed with -9 at any moment, and goes on."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import reserved_port  # beside the folders of tests

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 300,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "hidden_act": "silu",
    "torch_dtype": "float32",
    "eos_token_id": 1,
}


class Trainer:
    def __init__(self, folder, *flags, shape=None, env=None, **config):
        self.folder = pathlib.Path(folder)
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps(CONFIG | (shape or {})))
        settings = {
            "model": str(model),
            "init_random": True,
            "dtype": "float32",
            "lr": 1e-3,
            "schedule": "constant",
            "threads": 2,
            "max_tokens_per_micro_batch": 256,
            "checkpoint": str(self.folder / "checkpoints"),
            "checkpoint_interval": 1,
            "run_id": f"test-{os.getpid()}-{self.folder.name}",
        } | config
        (self.folder / "train.yaml").write_text(json.dumps(settings))  # JSON is YAML
        self.port = reserved_port()
        self.shm = pathlib.Path("/dev/shm") / f"tritonforge-{settings['run_id']}"
        self.log = open(self.folder / "log.txt", "a")  # noqa: SIM115  # the process writes to it
        self.process = subprocess.Popen(
            [BINARY, "serve", "trainer", "--config", str(self.folder / "train.yaml"), "--port", str(self.port), *flags],
            stderr=self.log,
            stdout=self.log,
            env=os.environ | (env or {}),
        )
        self.wait_until_up()

    def wait_until_up(self):
        for _ in range(1200):
            assert self.process.poll() is None, (self.folder / "log.txt").read_text()[-2000:]
            try:
                return self.get("/health")
            except (urllib.error.URLError, ConnectionError):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.1)
        raise AssertionError("the trainer did not come up")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as reply:
            return json.load(reply)

    def post(self, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            return {"status": error.code} | json.load(error)

    def step(self, number):
        return self.post("/step", {"kind": "sft", "step": number, "sequences": batch(number)})

    def wait_for(self, reached):
        """Checkpoints are written behind the steps."""
        end = time.monotonic() + 200
        while not reached(self.get("/status")):
            assert time.monotonic() < end, self.get("/status")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.log.close()
        shutil.rmtree(self.shm, ignore_errors=True)


def batch(number):
    rng = random.Random(number)
    sequences = []
    for _ in range(6):
        length = rng.randrange(20, 120)
        sequences.append(
            {"tokens": [rng.randrange(300) for _ in range(length)], "loss_mask": [0] * 5 + [1] * (length - 5)}
        )
    return sequences


def checksums(trainer):
    return trainer.post("/publish_weights", {"version": 99})["checksums"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights after 6 steps of a trainer that nobody kills."""
    with Trainer(tmp_path_factory.mktemp("undisturbed")) as trainer:
        for number in range(1, 7):
            assert trainer.step(number)["step"] == number
        return checksums(trainer)


def test_killed_in_the_middle_of_a_step_it_resumes_to_the_same_bits(tmp_path, undisturbed):
    with Trainer(tmp_path) as trainer:
        for number in (1, 2, 3):
            trainer.step(number)
        # A step is sent and the process killed without waiting for the answer.
        body = json.dumps({"kind": "sft", "step": 4, "sequences": batch(4)}).encode()
        with socket.create_connection(("127.0.0.1", trainer.port)) as connection:
            connection.sendall(
                b"POST /step HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            connection.settimeout(30)
            state = trainer.get("/status")  # it has the request by now, or will never have it
            trainer.kill()
        assert state["step"] >= 3
    with Trainer(tmp_path, "--resume") as trainer:
        status = trainer.get("/status")
        assert status["step"] in (2, 3, 4) and status["checkpoint_step"] == status["step"]
        for number in range(status["step"], 7):  # the last step is repeated, as a driver does that lost the answer
            assert trainer.step(number)["step"] == number
        assert checksums(trainer) == undisturbed


def test_killed_again_and_again_while_it_writes(tmp_path, undisturbed):
    rng = random.Random(1)
    number, flags, patience_s = -1, [], 0.3
    while True:
        with Trainer(tmp_path, *flags) as trainer:
            flags, before = ["--resume"], number
            number = trainer.get("/status")["step"]
            if number == before:  # on a busy machine no step might ever be done in time
                patience_s *= 1.5
            if number >= 6:
                assert checksums(trainer) == undisturbed
                return
            # A killer that strikes at a moment of its own choosing, most often while a checkpoint is written.
            killer = threading.Timer(0.02 + rng.random() * patience_s, trainer.process.kill)
            killer.start()
            try:
                for after in range(number + 1, min(number + 4, 7)):
                    trainer.step(after)
            except (OSError, ValueError, http.client.HTTPException):
                pass
            killer.join()
            trainer.process.wait()
        left = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*") if ".tmp-" not in path.name)
        assert len(left) <= 3, left


def preloaded(folder, name="kill_at"):
    """The library of NAME.c, for LD_PRELOAD."""
    library = str(folder / f"{name}.so")
    source = str(ROOT / f"tests/integration/{name}.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def test_killed_between_any_two_parts_of_a_checkpoint_it_resumes_to_the_same_bits(tmp_path):
    """Before each file of a checkpoint gets its name, before the folder and `latest` do, and before each removal of the
    one before: a process a time, each of which goes on from what the last one left."""
    library = preloaded(tmp_path)
    folder = tmp_path / "killed"
    folder.mkdir()
    with Trainer(folder) as trainer:
        trainer.step(1)
        trainer.wait_for(lambda status: status["checkpoint_step"] == 1)
    settings = {"LD_PRELOAD": library, "KILL_BELOW": str(folder / "checkpoints")}
    kills = 0
    while True:
        with Trainer(folder, "--resume", env=settings | {"KILL_AT": str(kills + 1)}, keep_checkpoints=1) as trainer:
            number = trainer.get("/status")["step"] + 1
            try:
                trainer.step(number)
                trainer.wait_for(lambda status, number=number: status["checkpoint_step"] == number)
            except (OSError, ValueError, http.client.HTTPException):
                trainer.process.wait()
            if trainer.process.poll() is None:
                weights = checksums(trainer)
                break
            assert trainer.process.returncode == -signal.SIGKILL
            kills += 1
    assert kills >= 12, kills  # six files, the folder, `latest`, and what is removed
    assert number >= 5, number  # those that were killed behind `latest` had their step
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    with Trainer(undisturbed, checkpoint_interval=0) as trainer:
        for each in range(1, number + 1):
            trainer.step(each)
        assert checksums(trainer) == weights


def test_sequences_that_came_ahead_are_lost_with_the_trainer_and_nothing_else_is(tmp_path, undisturbed):
    def ahead(trainer, number):
        assert trainer.post("/prepare", {"kind": "sft", "step": number, "sequences": batch(number)}) == {"step": number}

    def by_name(trainer, number):
        return trainer.post("/step", {"kind": "sft", "step": number})

    with Trainer(tmp_path) as trainer:
        for number in (1, 2, 3):
            ahead(trainer, number)
            assert by_name(trainer, number)["step"] == number
        trainer.wait_for(lambda status: status["checkpoint_step"] == 3)
        ahead(trainer, 4)
        trainer.kill()
    with Trainer(tmp_path, "--resume") as trainer:
        assert by_name(trainer, 4)["status"] == 404
        assert trainer.step(4)["step"] == 4
        assert trainer.post("/prepare", {"kind": "sft", "step": 4, "sequences": batch(4)})["status"] == 409
        for number in (5, 6):
            ahead(trainer, number)
        for number in (5, 6):
            assert by_name(trainer, number)["step"] == number
        assert by_name(trainer, 6)["repeated"]
        assert checksums(trainer) == undisturbed


def test_it_stops_cleanly_and_saves_what_it_has(tmp_path):
    with Trainer(tmp_path, checkpoint_interval=0) as trainer:
        trainer.step(1)
        weights = checksums(trainer)
        assert trainer.stop() == 0
        assert not trainer.shm.exists()
    with Trainer(tmp_path, "--resume") as trainer:
        assert trainer.get("/status")["checkpoint_step"] == 1
        assert checksums(trainer) == weights


def test_a_step_out_of_turn_names_the_expected_one(tmp_path):
    with Trainer(tmp_path) as trainer:
        reply = trainer.step(5)
        assert reply["status"] == 409 and reply["expected_step"] == 1 and "expected 1" in reply["error"]["message"]


@pytest.mark.parametrize(
    "config, code, said",
    [
        ({"learning_rate": 1}, 2, "unknown key 'learning_rate'"),
        ({"parallel": {"ep": 2, "dp": 2}}, 2, "parallel.ep 2: a dense model has no experts to share out: ep is 1"),
        ({"parallel": {"ep": 2}}, 2, "parallel.ep 2 does not divide dp * cp = 1"),
        (
            {"parallel": {"pp": 2, "pp_chunks": 2}, "device": "cuda"},
            2,
            "pp_chunks 2 on cuda: on GPUs a stage is one chunk of layers yet",
        ),
        ({"model": "/nowhere"}, 2, "/nowhere"),
        ({"dtype": "bfloat"}, 2, "did you mean 'bfloat16'"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, config, code, said):
    (tmp_path / "train.yaml").write_text(json.dumps({"model": str(tmp_path)} | config))
    done = subprocess.run(
        [BINARY, "serve", "trainer", "--config", str(tmp_path / "train.yaml"), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr.strip().splitlines()[-1]


def test_a_port_in_use_and_a_folder_in_use_are_refused(tmp_path):
    with Trainer(tmp_path) as trainer:
        command = [BINARY, "serve", "trainer", "--config", str(tmp_path / "train.yaml"), "--port"]
        done = subprocess.run([*command, "0"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "in use by another trainer" in done.stderr.splitlines()[-1]
        done = subprocess.run(
            [*command, str(trainer.port), "--set", f"checkpoint={tmp_path}/other", "--set", "run_id=other-run"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1 and str(trainer.port) in done.stderr.splitlines()[-1]


def test_a_step_that_finds_too_little_memory_is_refused_and_taken_once_there_is_more(tmp_path):
    """The process may map no more than it has and a little: a step that needs more fails and costs nothing else."""
    shape = {"hidden_size": 256, "intermediate_size": 2048, "num_hidden_layers": 3}
    rng = random.Random(2)
    large = [{"tokens": [rng.randrange(300) for _ in range(512)], "loss_mask": [0] + [1] * 511} for _ in range(4)]
    steps = {1: batch(1), 2: large, 3: batch(3)}

    def train(trainer, number):
        return trainer.post("/step", {"kind": "sft", "step": number, "sequences": steps[number]})

    weights = []
    for narrow in (False, True):
        folder = tmp_path / str(narrow)
        folder.mkdir()
        with Trainer(folder, shape=shape, max_tokens_per_micro_batch=2048, checkpoint_interval=0) as trainer:
            assert train(trainer, 1)["step"] == 1
            if narrow:
                mapped = int(pathlib.Path(f"/proc/{trainer.process.pid}/statm").read_text().split()[0])
                little = mapped * resource.getpagesize() + (48 << 20)
                before = resource.prlimit(trainer.process.pid, resource.RLIMIT_AS, (little, resource.RLIM_INFINITY))
                refused = train(trainer, 2)
                said = refused["error"]["message"]
                assert refused["status"] == 500 and said.startswith("step 2: out of memory with "), refused
                assert "max_tokens_per_micro_batch (now 2048)" in said and "\n" not in said
                status = trainer.get("/status")
                assert status["step"] == 1 and status["state"] == "idle", status
                resource.prlimit(trainer.process.pid, resource.RLIMIT_AS, before)
            assert train(trainer, 2)["step"] == 2
            assert train(trainer, 3)["step"] == 3
            weights.append(checksums(trainer))
    assert weights[0] == weights[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="a small tmpfs needs root")
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]).returncode != 0:
        pytest.skip("no right to mount")
    try:
        with Trainer(tmp_path, checkpoint=str(disk / "checkpoints"), keep_checkpoints=1) as trainer:
            assert trainer.step(1)["step"] == 1
            trainer.wait_for(lambda status: status["checkpoint_step"] == 1)
            (disk / "filler").write_bytes(bytes(1500000))
            assert trainer.step(2)["step"] == 2
            trainer.wait_for(lambda status: "No space left" in status.get("checkpoint_error", ""))
            assert trainer.get("/health")["status"] == "yellow"
            assert trainer.get("/status")["checkpoint_step"] == 1
            (disk / "filler").unlink()
            assert trainer.post("/save", {})["step"] == 2
            assert trainer.get("/health")["status"] == "green"
            trainer.kill()
        with Trainer(tmp_path, "--resume", checkpoint=str(disk / "checkpoints"), keep_checkpoints=1) as trainer:
            assert trainer.get("/status")["step"] == 2
    finally:
        subprocess.run(["umount", str(disk)], check=True)
