"""Ranks of `tritonforge serve trainer` as real processes: they train as one, die at any moment, and go on."""

import contextlib
import http.client
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import threading

import pytest
import safetensors.torch
import torch
import transformers

from test_trainer import BINARY, Trainer, preloaded, reserved_port

LOST_AFTER_S = 4


class Ranks(Trainer):
    """Rank 0 is the trainer that is spoken to; the others are in `followers`."""

    def __init__(self, folder, degrees, *flags, env_of=None, **config):
        """env_of: what is set for a rank alone."""
        self.rendezvous = f"127.0.0.1:{reserved_port()}"
        self.count = math.prod(degrees.values())
        self.followers = []
        self.env_of = env_of or {}
        parallel = degrees | {"timeout_s": 60, "lost_after_s": LOST_AFTER_S}
        mine = ("--rank", "0", "--rendezvous", self.rendezvous) if self.count > 1 else ()
        env = self.env_of.get(0)
        super().__init__(folder, *mine, *flags, threads=1, parallel=parallel, env=env, **config)

    def wait_until_up(self):
        for rank in range(1, self.count):
            arguments = ["--config", str(self.folder / "train.yaml"), "--rank", str(rank)]
            self.followers.append(
                subprocess.Popen(
                    [BINARY, "serve", "trainer", *arguments, "--rendezvous", self.rendezvous],
                    stderr=self.log,
                    stdout=self.log,
                    env=os.environ | self.env_of.get(rank, {}),
                )
            )
        return super().wait_until_up()

    @property
    def processes(self):
        return [self.process, *self.followers]

    def weights(self):
        return self.post("/publish_weights", {"version": 1, "step": self.get("/status")["step"]})["checksums"]

    def text(self):
        return (self.folder / "log.txt").read_text()

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        self.log.close()


def straight(folder, degrees, steps):
    """Losses and weights of an undisturbed run."""
    with Ranks(folder, degrees) as ranks:
        losses = [ranks.step(number)["loss"] for number in range(1, steps + 1)]
        return losses, ranks.weights()


def make(folder):
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return straight(tmp_path_factory.mktemp("alone"), {}, 5)[0]


@pytest.mark.parametrize("degrees", [{"dp": 2}, {"tp": 2}, {"cp": 2}], ids=str)
def test_two_ranks_train_as_one_and_other_layouts_go_on(alone, tmp_path, degrees):
    with Ranks(tmp_path, degrees) as ranks:
        losses = [ranks.step(number)["loss"] for number in (1, 2, 3)]
        assert losses == pytest.approx(alone[:3], rel=1e-6)
        before = ranks.weights()
        assert ranks.step(3)["repeated"]
        assert ranks.post("/step", {"kind": "sft", "step": 9, "sequences": []})["status"] == 409
        assert ranks.stop() == 0
        assert [follower.wait(60) for follower in ranks.followers] == [0]
    files = sorted(path.name for path in (tmp_path / "checkpoints" / "step-00000003").glob("*.safetensors"))
    assert files == [f"{kind}-0000{n}-of-00002.safetensors" for kind in ("model", "optimizer") for n in (1, 2)]
    with Ranks(tmp_path, {}, "--resume") as one:
        assert one.weights() == before
        assert one.step(4)["loss"] == pytest.approx(alone[3], rel=1e-6)
        assert one.stop() == 0
    with Ranks(tmp_path, {"tp": 2, "cp": 2}, "--resume") as four:
        assert four.step(5)["loss"] == pytest.approx(alone[4], rel=1e-6)


def test_what_ranks_write_is_read_by_transformers(tmp_path):
    """A checkpoint, an export and weights published to a folder, of four ranks that have a part of the model each."""
    with Ranks(tmp_path, {"tp": 2, "pp": 2}) as ranks:
        ranks.step(1)
        checkpoint = pathlib.Path(ranks.post("/save", {})["path"])
        exported = pathlib.Path(ranks.post("/export", {"folder": str(tmp_path / "export")})["path"])
        published = ranks.post("/publish_weights", {"version": 1, "to": str(tmp_path / "published")})
        in_memory = ranks.post("/publish_weights", {"version": 1, "to": "shm"})
        assert published["checksums"] == in_memory["checksums"]
        expected = safetensors.torch.load_file(in_memory["path"])
    for folder in (checkpoint, exported, pathlib.Path(published["path"])):
        names = sorted(path.name for path in folder.glob("model*.safetensors"))
        assert names == [f"model-0000{rank}-of-00004.safetensors" for rank in (1, 2, 3, 4)]
        assert json.loads((folder / "checksums.json").read_text()).items() >= published["checksums"].items()
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        found = dict(model.named_parameters())
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_killed_between_any_two_parts_of_a_checkpoint_leaves_the_last_one(tmp_path, victim):
    """Before each of its files gets its name, and before the folder and `latest` do: a job a time, which goes on
    from what the last one left."""
    library = preloaded(tmp_path)
    folder = make(tmp_path / "killed")
    with Ranks(folder, {"tp": 2}) as ranks:
        ranks.step(1)
        ranks.wait_for(lambda status: status["checkpoint_step"] == 1)
    settings = {"LD_PRELOAD": library, "KILL_BELOW": str(folder / "checkpoints")}
    kills = 0
    while True:
        env_of = {victim: settings | {"KILL_AT": str(kills + 1)}}
        with Ranks(folder, {"tp": 2}, "--resume", env_of=env_of, keep_checkpoints=1) as ranks:
            before = ranks.get("/status")["step"]
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                ranks.step(before + 1)
                ranks.wait_for(lambda status, before=before: status["checkpoint_step"] == before + 1)
                weights = ranks.weights()
                break
            for process in ranks.processes:
                process.wait(LOST_AFTER_S + 60)
            assert ranks.processes[victim].returncode == -signal.SIGKILL
            kills += 1
    assert kills >= (10 if victim == 0 else 2), kills  # its two files; rank 0 has the folder's other files, too
    with Ranks(make(tmp_path / "undisturbed"), {"tp": 2}, checkpoint_interval=0) as ranks:
        for number in range(1, before + 2):
            ranks.step(number)
        assert ranks.weights() == weights


@pytest.mark.parametrize("degrees", [{"dp": 2}, {"tp": 2}], ids=str)
def test_a_rank_killed_at_any_moment_ends_the_job_by_name_and_the_next_one_goes_on(tmp_path, degrees):
    steps = 12
    _, expected = straight(make(tmp_path / "straight"), degrees, steps)
    folder = make(tmp_path / "disturbed")
    seed = random.randrange(1 << 30)
    print("seed", seed)  # pytest shows it where the test fails
    chance = random.Random(seed)
    resume = ()
    for victim in (1, 0, 1):
        with Ranks(folder, degrees, *resume) as ranks:
            before = len(ranks.text())
            next_step = ranks.get("/status")["step"] + 1
            timer = threading.Timer(chance.uniform(0.05, 1.0), ranks.processes[victim].kill)
            timer.start()
            with contextlib.suppress(OSError, ValueError, KeyError, http.client.HTTPException):
                for number in range(next_step, steps + 1):
                    ranks.step(number)["loss"]
            timer.join()
            for process in ranks.processes:
                process.wait(LOST_AFTER_S + 60)
            assert all(process.returncode != 0 for process in ranks.processes)
            said = ranks.text()[before:]
            assert ("rank 0 is gone" if victim == 0 else f"the job ends: rank {victim}: it") in said, said
        resume = ("--resume",) if (folder / "checkpoints" / "latest").exists() else ()
    with Ranks(folder, degrees, *resume) as ranks:
        for number in range(ranks.get("/status")["step"] + 1, steps + 1):
            ranks.step(number)
        assert ranks.weights() == expected


def test_a_rank_that_hangs_is_named_with_what_the_others_wait_for(tmp_path):
    with Ranks(tmp_path, {"dp": 2}) as ranks:
        ranks.step(1)
        ranks.followers[0].send_signal(signal.SIGSTOP)
        with contextlib.suppress(OSError, http.client.HTTPException):
            ranks.step(2)
        assert ranks.process.wait(LOST_AFTER_S + 60) == 1
        text = ranks.text()
    assert "rank 1: it was not heard of for" in text
    assert re.search(r"rank 0 was at step 2, \w+ \d+ '.*' of ", text), text


def test_a_rank_that_cannot_write_fails_the_checkpoint_and_nothing_else(tmp_path):
    with Ranks(tmp_path, {"tp": 2}, checkpoint_interval=0) as ranks:
        ranks.step(1)
        (tmp_path / "file").write_text("no folder")
        assert ranks.post("/save", {"path": str(tmp_path / "file" / "x")})["status"] == 503
        assert ranks.step(2)["step"] == 2
        assert ranks.post("/save", {})["step"] == 2
