"""The first TritonForge's clients, written anew from their documented requests, against our buffer and evaluator as
real processes: a trainer that has trajectories generated (8889), a generator with an evaluation of its own (18188), and
the monitors. docs/from-tritonforge.md, "The clients", lists the requests; each of them is sent here."""

import collections
import json
import re
import urllib.request

import pytest

import front_door
from engine_process import ROOT, serving
from front_door import PROBLEM, RIGHT, WRONG, prompt_row
from test_buffer import Peers, wait_until

GROUP = 4  # n_samples_per_prompt
GAMMA = 0.4
COMPILES, CORRECT = 0.1, 0.3  # the original's rewards where nothing is timed


class Answers(Peers):
    """An engine with SGLang's API: the right kernel for an even seed at once, for an odd one after feedback."""

    def generate(self, body):
        asked = self.tokenizer.decode(body["input_ids"], skip_special_tokens=False)
        first = asked.count("<|im_start|>assistant") == 1
        seed = body["sampling_params"]["sampling_seed"]
        source = WRONG if first and seed % 2 else RIGHT
        ids = self.tokenizer.encode(f"```python\n# {seed}\n{source}```<|im_end|>", add_special_tokens=False).ids
        return {
            "text": self.tokenizer.decode(ids),
            "output_ids": ids,
            "meta_info": {
                "finish_reason": {"type": "stop"},
                "output_token_logprobs": [[-0.5, token, None] for token in ids],
                "weight_version": "1",
            },
        }


@pytest.fixture(scope="module")
def evaluator():
    with serving("evaluator", "--port", "0", "--mode", "plan", "--workers", "2") as server:
        yield server


@pytest.fixture(scope="module")
def engine():
    answers = Answers()
    yield answers
    answers.close()


@pytest.fixture(scope="module")
def buffer(tmp_path_factory, evaluator, engine):
    flags = ["--db", str(tmp_path_factory.mktemp("buffer") / "buffer.sqlite"), "--grace", "5"]
    flags += ["--router", "http://127.0.0.1:9", "--evaluator", "http://127.0.0.1:9"]  # a client says which
    with serving("buffer", "--port", "0", *flags, "--tokenizer", str(ROOT / "tests/data/tiny-tokenizer")) as server:
        yield server


# --- The trainer: has groups generated, and polls for them ---


class Trainer:
    """What SLIME's agent rollout sends and what it reads of the answers."""

    def __init__(self, buffer, engine, evaluator, prompts):
        self.url, self.finished = buffer.url, []
        self.payload = {  # numbers travel as text
            "num_process": "100",
            "num_epoch": "1",
            "remote_engine_url": engine.url,
            "remote_buffer_url": buffer.url,
            "remote_eval_server_url": evaluator.url,
            "task_type": "kernelbench_multiturn",
            "max_turns": "3",
            "gamma": str(GAMMA),
            "input_file": str(prompts),
            "num_repeat_per_sample": str(GROUP),
            "max_tokens": "1000",
            "sampling_params": {"max_tokens": 1000, "temperature": 1.0, "top_p": 1.0},
            "tokenizer_path": "/root/Qwen3-8B",
            "skip_instance_ids": [],
            "min_valid_group_size_ratio": 1,
            "min_valid_item_size_ratio": 0.7,
            "group_timeout_seconds": 300,
            "eval_concurrency": 2,
        }

    def post(self, path, body, timeout):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)

    def start(self):
        return self.post("/start_rollout", self.payload, timeout=100)["message"]

    def fetch(self, items):
        """Everything that there is, again and again, until it is enough."""
        results = []

        def enough():
            reply = self.post("/get_rollout_data", {}, timeout=100)
            if reply["success"]:
                results.extend(reply["data"]["data"])
                self.finished += reply["data"]["meta_info"]["finished_groups"]
            return len(results) >= items

        wait_until(enough, f"{items} items")
        for item in results:
            assert {"uid", "instance_id", "messages", "reward", "extra_info", "raw_reward"} <= item.keys()
        return results

    @staticmethod
    def newest(items, groups):
        """By the time of each group's last sample."""
        by_instance = collections.defaultdict(list)
        for item in items:
            by_instance[item["instance_id"]].append(item)
        order = sorted(by_instance.values(), key=lambda g: max(float(i["extra_info"]["timestamp"]) for i in g))
        return order[-groups:]


@pytest.fixture(scope="module")
def rollout(tmp_path_factory, buffer, engine, evaluator):
    prompts = tmp_path_factory.mktemp("prompts") / "kernel_bench_triton_level_1_2.jsonl"
    prompts.write_text("".join(json.dumps(prompt_row(number)) + "\n" for number in (1, 2, 3)))
    trainer = Trainer(buffer, engine, evaluator, prompts)
    trainer.payload["skip_instance_ids"] = [prompt_row(2)["instance_id"]]
    trainer.said = trainer.start()
    trainer.items = trainer.fetch(2 * GROUP)
    return trainer


def test_a_trainer_gets_the_groups_that_it_asked_for(rollout):
    assert "2 groups started" in rollout.said
    groups = rollout.newest(rollout.items, 5)
    assert sorted(group[0]["instance_id"] for group in groups) == [prompt_row(n)["instance_id"] for n in (1, 3)]
    assert sorted(rollout.finished) == sorted(group[0]["instance_id"] for group in groups)
    for group in groups:
        assert len(group) == GROUP and len({item["uid"] for item in group}) == GROUP
        raw = [item["raw_reward"] for item in group]
        mean = sum(raw) / GROUP
        deviation = (sum((value - mean) ** 2 for value in raw) / GROUP) ** 0.5
        for item in group:  # z-scores of the group
            expected = 0 if deviation < 1e-8 else (item["raw_reward"] - mean) / (deviation + 1e-8)
            assert item["reward"] == pytest.approx(expected, abs=1e-6)
    assert len({item["raw_reward"] for item in rollout.items}) == 2


def test_a_trajectory_is_what_the_original_made_of_one(rollout):
    opening = prompt_row(1)["prompt"]
    turns = set()
    for item in rollout.items:
        details, more = item["execution_details"], item["multi_turn_data"]
        rewards = more["turn_rewards"]
        assert item["raw_reward"] == pytest.approx(sum(r * GAMMA**t for t, r in enumerate(rewards)))
        assert details["turn_rewards"] == rewards and details["aggregated_return"] == item["raw_reward"]
        assert (more["gamma"], more["max_turns"], details["num_turns"]) == (GAMMA, 3, len(rewards))
        assert details["final_compiled"] and details["final_correctness"]
        assert rewards == pytest.approx([CORRECT] if len(rewards) == 1 else [COMPILES, CORRECT])
        turns.add(len(rewards))
        roles = [message["role"] for message in item["messages"]]
        assert roles == ["system", "user", *["assistant", "user"] * (len(rewards) - 1), "assistant"]
        assert item["messages"][:2] == opening
        for turn, entry in enumerate(more["history"]):
            assert entry["turn_idx"] == turn and "class ModelNew" in entry["kernel_code"]
            assert {"compiled", "correctness", "runtime", "speedup", "error_message"} <= entry["eval_result"].keys()
        extra = item["extra_info"]
        assert extra["level"] == 1 and extra["round_number"] == len(rewards) and extra["task_type"] == "kernelbench"
    assert turns == {1, 2}  # the stub's answers need feedback, or they do not


def test_what_was_read_is_gone_and_what_was_finished_is_skipped(rollout):
    assert rollout.post("/get_rollout_data", {"batch_size": 1}, 100)["success"] is False
    rollout.payload["skip_instance_ids"] = rollout.finished
    assert "1 groups started" in rollout.start()
    assert {item["instance_id"] for item in rollout.fetch(GROUP)} == {prompt_row(2)["instance_id"]}


# --- The generator: samples by itself, has each kernel judged, and writes what came of it ---


def evaluate(evaluator, candidate, **more):
    body = {
        "original_model_src": PROBLEM.format(operator="relu"),
        "custom_model_src": candidate,
        "num_correct_trials": 2,
        "num_perf_trials": 100,
        "measure_performance": True,
        "backend": "triton",
        "verbose": False,
        "seed": 42,  # the generator's own name, which its server does not read either
    }
    return evaluator.request("/eval", body | more)


def written(evaluator, buffer, instance, number, candidate):
    status, result, _ = evaluate(evaluator, candidate)
    assert status == 200 and result.keys() == {"compiled", "correctness", "metadata", "runtime", "runtime_stats"}
    item = {
        "uid": f"{instance}-{number}",
        "instance_id": instance,
        "messages": [{"role": "user", "content": "do"}, {"role": "assistant", "content": candidate}],
        "reward": 2.3 if result["correctness"] else COMPILES if result["compiled"] else 0.0,
        "extra_info": {"round_number": 1, "timestamp": "1.0", "rollout_index": number},
        "execution_details": {**result, "eval_status": "completed"},
    }
    reply = buffer.post("/buffer/write", item)
    assert reply["success"] and reply["data"]["data"] == [item]
    return item


def test_a_generator_has_kernels_judged_and_writes_them(evaluator, buffer, rollout):
    kernels = [RIGHT, WRONG, "def forward(:", RIGHT + "\n"]
    items = [written(evaluator, buffer, "own", number, kernel) for number, kernel in enumerate(kernels)]
    assert [item["reward"] for item in items] == [2.3, COMPILES, 0.0, 2.3]
    assert buffer.post("/buffer/write", items[0])["success"]  # sent again: one item
    peeked = buffer.get("/buffer/peek?batch_size=4")["data"]["data"]
    status, said, _ = buffer.request("/buffer/peek", {"batch_size": 4}, method="GET")  # as the original's took it
    assert status == 200 and said["data"]["data"] == peeked
    (stats,) = buffer.get("/buffer/stats")["data"]["data"]
    assert (stats["current_size"], stats["total_written"] - stats["total_read"]) == (GROUP, GROUP)
    read = buffer.post("/buffer/read", {"batch_size": GROUP, "timeout": 10, "wait": True})
    assert read["success"] and [item["uid"] for item in read["data"]["data"]] == [item["uid"] for item in peeked]
    meta = read["data"]["meta_info"]
    assert (meta["total_samples"], meta["num_groups"], meta["reward_max"]) == (GROUP, 1, 2.3)
    assert meta["avg_reward"] == pytest.approx(4.7 / 4)
    assert [item["raw_reward"] for item in read["data"]["data"]] == [2.3, COMPILES, 0.0, 2.3]  # above 1, too


def test_a_candidates_faults_are_named_as_they_were(evaluator):
    metadata = evaluate(evaluator, WRONG)[1]["metadata"]
    assert metadata["correctness_issue_name"] == "mismatch" and metadata["correctness_trials"].startswith("(0 / ")
    assert metadata["max_difference"][0] > 0.1 and {"hardware", "device", "gpu_type"} <= metadata.keys()
    assert evaluate(evaluator, "def forward(:")[1]["metadata"]["compilation_error_name"] == "syntax_error"
    thrown = RIGHT.replace("n = x.numel()", "raise RuntimeError('mine')")
    result = evaluate(evaluator, thrown)[1]
    assert "mine" in str(result["metadata"]) and not result["correctness"]
    cheated = RIGHT.replace("kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)", "out = torch.relu(x)")
    result = evaluate(evaluator, cheated)[1]
    assert not result["correctness"] and "no_kernel_launched" in result["metadata"]["cheats"]


def test_what_cannot_be_judged_has_a_detail(evaluator):
    status, said, _ = evaluator.request("/eval", {"original_model_src": "x"})
    assert status == 400 and "custom_model_src" in said["detail"] == said["error"]["message"]
    status, said, _ = evaluate(evaluator, RIGHT, backend="fortran")
    assert status == 400 and "triton, cuda" in said["detail"]


# --- Every request of the page ---


def test_a_server_may_be_watched_as_before(evaluator, buffer):
    health = evaluator.get("/health")
    assert (
        health["status"] in ("green", "yellow") and health["report"]["devices"] == evaluator.get("/status")["devices"]
    )
    assert evaluator.get("/gpu_status") == evaluator.get("/status")
    assert "triton" in evaluator.get("/backend_info")["backends"]
    assert {"per_device_faults", "total_faults"} <= evaluator.get("/fault_statistics").keys()
    for path in ("/cleanup", "/reset_devices"):
        assert evaluator.post(path, {})["status"] == "ok"
    assert "/eval" in evaluator.get("/")["endpoints"] and buffer.get("/")["success"]


@pytest.mark.parametrize(
    "request_line", [line for _, cell in front_door.rows("request") for line in front_door.code(cell)]
)
def test_every_request_of_the_page_is_one_of_ours(request_line, evaluator, buffer):
    """It exists at one of the servers: an answer, or what is wrong with an empty body."""
    method, path = request_line.split()
    replies = [server.request(path, {} if method == "POST" else None, method=method) for server in (buffer, evaluator)]
    known = [status for status, said, _ in replies if not re.search("no such path|no route", json.dumps(said))]
    assert known and set(known) <= {200, 400, 404}, replies
