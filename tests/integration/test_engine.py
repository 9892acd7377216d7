"""`tritonforge serve engine` and `tritonforge generate` as their users meet them, against `transformers`."""

import concurrent.futures
import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import uuid

import pytest

from engine_process import BINARY, engine_process, make_model, serving
from model_helpers import real_model

PROMPT = "def kernel(x_ptr, y_ptr, n):\n    "


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "one": (folder / "one", make_model(folder / "one", 1)),
        "two": (folder / "two", make_model(folder / "two", 2)),
        "qwen2": (folder / "qwen2", make_model(folder / "qwen2", 3, "qwen2")),
    }


@pytest.fixture(scope="module")
def engine(models):
    with engine_process(models["one"][0]) as running:
        yield running


def log_probs(model, ids, temperature=1.0):
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float() / (temperature or 1.0)
    table = torch.log_softmax(logits, -1)
    return [table[i, token].item() for i, token in enumerate(ids[1:])]


def ids_of(text, folder):
    line = json.dumps({"text": text}) + "\n"
    done = subprocess.run(
        [BINARY, "tokenize", "--tokenizer", str(folder)], input=line, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)["ids"]


def test_generate_has_the_fields_of_the_protocol(engine, models):
    reply = engine.generate(PROMPT, max_new_tokens=12, seed=3, ignore_eos=True)
    meta = reply["meta_info"]
    assert len(reply["output_ids"]) == meta["completion_tokens"] == 12
    assert meta["finish_reason"]["type"] == "length"
    assert meta["prompt_tokens"] == len(ids_of(PROMPT, models["one"][0]))
    assert meta["weight_version"] == "0" and meta["output_token_weight_versions"] == [0] * 12
    assert [entry[1] for entry in meta["output_token_logprobs"]] == reply["output_ids"]
    assert meta["e2e_latency"] > 0 and meta["id"]
    without = engine.post("/generate", {"text": PROMPT, "sampling_params": {"max_new_tokens": 1}})
    assert "output_token_logprobs" not in without["meta_info"]


@pytest.mark.parametrize("temperature", [0, 1.0, 0.6])
def test_log_probs_equal_transformers(engine, models, temperature):
    folder, model = models["one"]
    reply = engine.generate(
        PROMPT, max_new_tokens=60, temperature=temperature, top_p=0.9 if temperature else 1.0, seed=5, ignore_eos=True
    )
    prompt = ids_of(PROMPT, folder)
    expected = log_probs(model, prompt + reply["output_ids"], temperature)[len(prompt) - 1 :]
    found = [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]]
    assert max(abs(a - b) for a, b in zip(found, expected)) < 1e-4


def test_log_probs_equal_score(engine, models):
    folder = models["one"][0]
    reply = engine.generate(PROMPT, max_new_tokens=60, temperature=1.0, seed=8, ignore_eos=True)
    prompt = ids_of(PROMPT, folder)
    line = json.dumps({"ids": prompt + reply["output_ids"]}) + "\n"
    scored = subprocess.run(
        [BINARY, "score", "--model", str(folder), "--dtype", "float32"], input=line, capture_output=True, text=True
    )
    if "unknown command" in scored.stderr:
        pytest.skip("this build has no `tritonforge score`")
    assert scored.returncode == 0, scored.stderr
    expected = json.loads(scored.stdout)["log_probs"][len(prompt) - 1 :]
    found = [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]]
    assert max(abs(a - b) for a, b in zip(found, expected)) < 1e-4


@pytest.mark.parametrize("name", ["one", "qwen2"])
def test_greedy_equals_transformers(models, name):
    import torch

    folder, model = models[name]
    prompt = ids_of(PROMPT, folder)
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=200, do_sample=False, pad_token_id=0)[
        0, len(prompt) :
    ].tolist()
    done = subprocess.run(
        [
            BINARY,
            "generate",
            "--model",
            str(folder),
            "--prompt",
            PROMPT,
            "--temperature",
            "0",
            "--threads",
            "1",
            "--max-new-tokens",
            "200",
            "--ignore-eos",
            "--json",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output_ids"] == expected


def test_greedy_equals_transformers_on_the_real_model():
    import torch

    path, model = real_model()
    prompt = ids_of("# A Triton kernel that adds two vectors\nimport triton\n", path)
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=200, do_sample=False, pad_token_id=0)[
        0, len(prompt) :
    ].tolist()
    del model
    done = subprocess.run(
        [
            BINARY,
            "generate",
            "--model",
            str(path),
            "--temperature",
            "0",
            "--max-new-tokens",
            "200",
            "--kv-cache-tokens",
            "1024",
            "--max-context",
            "1024",
            "--json",
        ],
        input=json.dumps({"ids": prompt}) + "\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output_ids"] == expected[: len(json.loads(done.stdout)["output_ids"])]
    assert len(json.loads(done.stdout)["output_ids"]) == len(expected)


def test_a_seed_gives_the_same_tokens_in_any_company(engine):
    alone = engine.generate(PROMPT, max_new_tokens=40, seed=11, ignore_eos=True)["output_ids"]
    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        futures = [
            pool.submit(engine.generate, PROMPT, max_new_tokens=40, seed=seed, ignore_eos=True) for seed in range(48)
        ]
        replies = [future.result() for future in futures]
    assert replies[11]["output_ids"] == alone
    assert len({tuple(reply["output_ids"]) for reply in replies}) > 40
    long = PROMPT * 4
    engine.generate(long, max_new_tokens=2)
    assert engine.generate(long, max_new_tokens=2)["meta_info"]["cached_tokens"] >= 16


def test_requests_without_a_seed_differ(engine):
    answers = {tuple(engine.generate(PROMPT, max_new_tokens=20, ignore_eos=True)["output_ids"]) for _ in range(4)}
    assert len(answers) == 4
    seeded = [
        engine.generate(PROMPT, max_new_tokens=20, ignore_eos=True, **{name: 11})["output_ids"]
        for name in ("seed", "sampling_seed")
    ]
    assert seeded[0] == seeded[1]


def test_samples_and_lists(engine):
    three = engine.generate(PROMPT, max_new_tokens=5, n=3, seed=1)
    assert len(three) == 3 and len({tuple(one["output_ids"]) for one in three}) == 3
    assert three[0]["output_ids"] == engine.generate(PROMPT, max_new_tokens=5, seed=1)["output_ids"]
    two = engine.generate([[1, 2, 3], [4, 5]], max_new_tokens=2)
    assert [one["meta_info"]["prompt_tokens"] for one in two] == [3, 2]


def test_streams_are_cumulative_and_end_in_the_plain_reply(engine):
    body = {
        "text": PROMPT,
        "return_logprob": True,
        "sampling_params": {"max_new_tokens": 30, "seed": 4, "ignore_eos": True},
    }
    plain = engine.post("/generate", body)
    events = list(engine.events("/generate", {**body, "stream": True}))
    assert events[-1] == "[DONE]"
    parsed = [json.loads(event) for event in events[:-1]]
    assert parsed[-1]["text"] == plain["text"] and parsed[-1]["output_ids"] == plain["output_ids"]
    for earlier, later in itertools.pairwise(parsed):
        assert later["text"].startswith(earlier["text"])
        assert later["output_ids"][: len(earlier["output_ids"])] == earlier["output_ids"]


def test_stop_strings(engine):
    free = engine.generate(PROMPT, max_new_tokens=60, seed=6, ignore_eos=True)
    text = free["text"]
    stop = text[20:24]
    stopped = engine.generate(PROMPT, max_new_tokens=60, seed=6, ignore_eos=True, stop=[stop])
    assert stopped["text"] == text[: text.index(stop)]
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert free["output_ids"][: len(stopped["output_ids"])] == stopped["output_ids"]
    kept = engine.generate(PROMPT, max_new_tokens=60, seed=6, ignore_eos=True, stop=stop, no_stop_trim=True)
    assert kept["text"] == text[: text.index(stop) + len(stop)]
    token = free["output_ids"][9]
    by_token = engine.generate(PROMPT, max_new_tokens=60, seed=6, ignore_eos=True, stop_token_ids=[token])
    assert by_token["meta_info"]["finish_reason"] == {"type": "stop", "matched": token}
    assert by_token["output_ids"][-1] == token


def test_chat_and_completions(engine):
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "seed": 1, "logprobs": True, "n": 2}
    reply = engine.post("/v1/chat/completions", body)
    assert reply["object"] == "chat.completion" and len(reply["choices"]) == 2
    choice = reply["choices"][0]
    assert choice["message"]["role"] == "assistant" and choice["finish_reason"] in ("stop", "length")
    assert len(choice["logprobs"]["content"]) <= 8 and reply["usage"]["completion_tokens"] <= 16
    body["n"] = 1
    events = list(
        engine.events("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    )
    assert events[-1] == "[DONE]"
    parsed = [json.loads(event) for event in events[:-1]]
    text = "".join(c["delta"].get("content", "") for event in parsed for c in event["choices"])
    assert text == choice["message"]["content"]
    assert parsed[-1]["usage"]["prompt_tokens"] == reply["usage"]["prompt_tokens"] and not parsed[-1]["choices"]
    completion = engine.post(
        "/v1/completions", {"prompt": [PROMPT, "x"], "max_tokens": 4, "temperature": 0, "logprobs": 0}
    )
    assert [c["index"] for c in completion["choices"]] == [0, 1]
    assert len(completion["choices"][0]["logprobs"]["token_logprobs"]) == 4
    assert engine.get("/v1/models")["data"][0]["id"] == "one"


def test_bad_requests_are_named(engine):
    for body, status, tells in [
        ({"text": "a", "sampling_params": {"temprature": 1}}, 400, "temperature"),
        ({"text": "a", "sampling_params": {"top_p": 0}}, 400, "top_p"),
        ({"input_ids": [99999]}, 400, "99999"),
        ({"input_ids": []}, 400, "empty"),
        ({"text": "a", "sampling_params": {"regex": "b"}}, 422, "regex"),
        ({"input_ids": [1] * 2000}, 400, "2000 tokens"),
    ]:
        code, reply, _ = engine.request("/generate", body)
        assert code == status and tells in reply["error"]["message"], reply
    assert engine.request("/v1/chat/completions", {"messages": [], "max_tokens": 1})[0] == 400
    assert engine.request("/no_such_path")[0] == 404


def test_abort_pause_and_continue(engine):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        engine.post("/pause_generation", {"mode": "in_place"})
        rid = str(uuid.uuid4())
        body = {"text": PROMPT, "rid": rid, "sampling_params": {"max_new_tokens": 900, "ignore_eos": True}}
        first = pool.submit(engine.post, "/generate", body)
        second = pool.submit(engine.generate, PROMPT, max_new_tokens=5, ignore_eos=True)
        engine.until(lambda: engine.get("/get_server_info")["waiting"] == 2, "two waiting requests")
        assert engine.get("/get_server_info")["paused"] and not first.done()
        engine.post("/abort_request", {"rid": rid})
        assert first.result()["meta_info"]["finish_reason"]["type"] == "abort"
        engine.post("/continue_generation", {})
        assert len(second.result()["output_ids"]) == 5
        sampling = {"max_new_tokens": 1000, "ignore_eos": True}
        third = engine.events("/generate", {"text": PROMPT, "stream": True, "sampling_params": sampling})
        next(third)  # it runs
        engine.post("/pause_generation", {"mode": "abort"})
        *_, last, end = third
        assert json.loads(last)["meta_info"]["finish_reason"]["type"] in ("abort", "length") and end == "[DONE]"
        engine.post("/continue_generation", {})
    info = engine.get("/get_server_info")
    assert info["running"] == info["waiting"] == 0 and info["kv_tokens_free"] == info["kv_cache_tokens"]


def test_released_memory_changes_nothing_but_the_time(engine):
    long = dict(max_new_tokens=700, ignore_eos=True, temperature=1.0, seed=5)
    undisturbed = engine.generate(PROMPT, **long)["output_ids"]
    begun = threading.Event()

    def streamed():
        body = {"text": PROMPT, "stream": True, "sampling_params": long}
        for event in engine.events("/generate", body):
            begun.set()
            if event != "[DONE]":
                last = event
        return json.loads(last)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        under_way = pool.submit(streamed)
        assert begun.wait(60)
        engine.post("/release_memory_occupation", {"tags": ["kv_cache"]})
        info = engine.get("/get_server_info")
        assert info["memory_released"] and info["running"] == 0 and info["kv_tokens_free"] == info["kv_cache_tokens"]
        assert info["cache_released"] and not info["weights_released"]
        later = pool.submit(engine.generate, PROMPT, **long)
        engine.until(
            lambda: engine.get("/get_server_info")["waiting"] == (1 if under_way.done() else 2), "requests wait"
        )
        reply = engine.post("/release_memory_occupation", {})  # the weights too; the cache is released already
        assert reply["success"] and reply["seconds"] >= 0
        assert engine.get("/get_server_info")["weights_released"]
        engine.post("/resume_memory_occupation", {"tags": ["kv_cache", "cuda_graph"]})
        assert engine.get("/get_server_info")["weights_released"] and engine.get("/health")["status"] == "green"
        engine.post("/resume_memory_occupation", {"tags": ["weights"]})
        assert under_way.result()["output_ids"] == later.result()["output_ids"] == undisturbed
    assert not engine.get("/get_server_info")["memory_released"]
    status, reply, _ = engine.request("/release_memory_occupation", {"tags": ["wieghts"]})
    assert status == 422 and "'weights'" in reply["error"]["message"], (status, reply)


def test_a_client_that_goes_away_frees_its_blocks(engine):
    engine.post("/pause_generation", {"mode": "in_place"})
    body = json.dumps(
        {"text": PROMPT, "stream": True, "sampling_params": {"max_new_tokens": 900, "ignore_eos": True}}
    ).encode()
    host, port = engine.url.removeprefix("http://").split(":")
    before = engine.get("/get_server_info")["aborted_requests"]
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /generate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        engine.until(lambda: engine.get("/get_server_info")["waiting"] == 1, "the request waits")
    engine.until(lambda: engine.get("/get_server_info")["aborted_requests"] == before + 1, "the request is aborted")
    engine.post("/continue_generation", {})
    info = engine.get("/get_server_info")
    assert info["kv_tokens_free"] == info["kv_cache_tokens"]


def test_a_full_queue_answers_429(models):
    with engine_process(models["one"][0], "--max-running", "1", "--max-queue", "1") as engine:
        engine.post("/pause_generation", {"mode": "in_place"})
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            held = [pool.submit(engine.generate, PROMPT, max_new_tokens=2) for _ in range(2)]
            engine.until(lambda: engine.get("/get_server_info")["waiting"] == 2, "a full queue")
            status, reply, headers = engine.request("/generate", {"text": PROMPT})
            assert status == 429 and "queue is full" in reply["error"]["message"]
            assert {k.lower(): v for k, v in headers.items()}["retry-after"]
            status, reply, _ = engine.request("/v1/completions", {"prompt": PROMPT})
            assert status == 429 and reply["error"]["type"] == "rate_limit_error" and reply["error"]["code"] == "busy"
            engine.post("/continue_generation", {})
            assert all(len(each.result()["output_ids"]) >= 1 for each in held)


@pytest.mark.parametrize("tp", [1, 2])
def test_weight_updates(models, tp):
    import safetensors.torch

    one, two = models["one"], models["two"]
    with engine_process(one[0], "--tp", str(tp)) as engine, engine_process(two[0]) as reference:
        assert engine.get("/get_server_info")["tp_size"] == tp
        expected = reference.generate(PROMPT, max_new_tokens=30, temperature=0, ignore_eos=True)["output_ids"]
        before = engine.generate(PROMPT, max_new_tokens=30, temperature=0, ignore_eos=True)["output_ids"]
        assert before != expected
        shared = pathlib.Path("/dev/shm") / f"tritonforge-test-{uuid.uuid4()}.safetensors"
        try:
            tensors = safetensors.torch.load_file(two[0] / "model.safetensors")
            safetensors.torch.save_file(tensors, shared)
            name = next(iter(tensors))
            status, reply, _ = engine.request(
                "/update_weights_from_tensor",
                {"path": str(shared), "weight_version": "4", "checksums": {name: "0" * 16}},
            )
            assert (
                status == 422 and not reply["success"] and name in reply["message"] and reply["weight_version"] == "0"
            )
            truncated = shared.read_bytes()[:4000]
            shared.with_suffix(".cut").write_bytes(truncated)
            assert (
                engine.request(
                    "/update_weights_from_tensor", {"path": str(shared.with_suffix(".cut")), "weight_version": "4"}
                )[0]
                == 422
            )
            assert engine.generate(PROMPT, max_new_tokens=30, temperature=0, ignore_eos=True)["output_ids"] == before

            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(engine.generate, PROMPT, max_new_tokens=900, seed=2, ignore_eos=True)
                engine.until(
                    lambda: engine.get("/get_server_info")["generated_tokens"] > 100, "tokens of the old weights"
                )
                reply = engine.post("/update_weights_from_tensor", {"path": str(shared), "weight_version": "4"})
                assert reply["success"] and reply["weight_version"] == "4" and set(reply["checksums"]) == set(tensors)
                versions = running.result()["meta_info"]["output_token_weight_versions"]
            assert versions == sorted(versions) and set(versions) <= {0, 4}
            after = engine.generate(PROMPT, max_new_tokens=30, temperature=0, ignore_eos=True)
            assert after["output_ids"] == expected and after["meta_info"]["weight_version"] == "4"
            # The sender's checksums of the same dtype are those that the engine answers with.
            again = engine.post(
                "/update_weights_from_tensor",
                {"path": str(shared), "weight_version": "5", "checksums": reply["checksums"]},
            )
            assert again["checksums"] == reply["checksums"]
            assert (
                engine.post("/update_weights_from_disk", {"model_path": str(one[0]), "weight_version": 6})[
                    "weight_version"
                ]
                == "6"
            )
            assert engine.get("/get_weight_version")["weight_version"] == "6"
            assert engine.generate(PROMPT, max_new_tokens=30, temperature=0, ignore_eos=True)["output_ids"] == before
            assert engine.request("/update_weights_from_disk", {"model_path": "/no/such/folder"})[0] == 404
            # The router's barrier: who asks for newer weights goes elsewhere.
            body = {"text": PROMPT, "sampling_params": {"max_new_tokens": 1}}
            for version, code in (("6", 200), ("7", 503), ("newest", 400)):
                headers = {"x-min-weight-version": version}
                status, reply, answered = engine.request("/generate", body, headers=headers)
                assert status == code, (version, reply)
                assert answered.get("x-min-weight-version") == ("7" if code == 503 else None)
            assert engine.request("/v1/completions", {"prompt": "x"}, headers={"x-min-weight-version": "7"})[0] == 503
        finally:
            shared.unlink(missing_ok=True)
            shared.with_suffix(".cut").unlink(missing_ok=True)


def test_health_info_and_metrics(engine):
    assert engine.get("/health")["status"] == "green"
    assert engine.get("/health_generate")["status"] == "green"
    assert engine.get("/get_model_info")["is_generation"] is True
    metrics = engine.get("/metrics")
    assert "tritonforge_engine_generated_tokens_total" in metrics and "tritonforge_engine_kv_tokens_free" in metrics
    seconds = engine.get("/get_server_info")["stage_seconds"]
    assert list(seconds) == ["deliver", "draw", "fill", "forward", "plan"] and all(
        value > 0 for value in seconds.values()
    )
    assert 'tritonforge_engine_stage_seconds_total{stage="forward"}' in metrics
    engine.post("/flush_cache", {})


@contextlib.contextmanager
def measurer(device):
    """Holds a device alone, as an evaluator does while it measures (base/device_lock.h): who shares it waits."""
    folder = pathlib.Path(f"/tmp/tritonforge-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with open(folder / f"{device}.gate", "a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def test_an_engine_that_hangs_says_so_and_the_router_asks_another(models):
    sharing = engine_process(models["one"][0], "--share-device", "--watchdog", "0.5")
    with sharing as hangs, engine_process(models["one"][0]) as other:
        times = ("--health-interval", "0.2", "--silence-timeout", "5")
        with (
            serving("router", "--port", "0", "--worker", hangs.url, *times) as router,
            concurrent.futures.ThreadPoolExecutor() as pool,
            measurer("cpu"),
        ):
            reply = pool.submit(router.request, "/generate", {"text": PROMPT, "sampling_params": {"max_new_tokens": 4}})
            hangs.until(lambda: hangs.request("/health")[0] == 503, "an engine that is red")
            health = hangs.request("/health")[1]
            assert health["status"] == "red"
            said = r"it hangs: no step has ended for [0-9]+ s, and 1 sequences run or wait \(watchdog_s 0.5\)"
            assert re.fullmatch(said, health["detail"])
            router.post(f"/add_worker?url={other.url}", {})
            status, _, headers = reply.result()
            assert status == 200 and headers["x-worker"] == other.url
        hangs.until(lambda: hangs.request("/health")[0] == 200, "steps again")


def test_start_up_faults(engine, models, tmp_path):
    def run(*flags):
        return subprocess.run([BINARY, "serve", "engine", *flags], capture_output=True, text=True, timeout=120)

    port = engine.url.rsplit(":", 1)[1]
    taken = run("--model", str(models["one"][0]), "--port", port, "--kv-cache-tokens", "1024")
    assert taken.returncode == 1 and port in taken.stderr
    missing = run("--model", str(tmp_path / "nothing"))
    assert missing.returncode in (1, 2) and "nothing" in missing.stderr
    folder = tmp_path / "no-tokenizer"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(models["one"][0] / name)
    assert "tokenizer" in run("--model", str(folder)).stderr
    assert run("--model", str(models["one"][0]), "--dtype", "float33").returncode == 2
    assert run("--model", str(models["one"][0]), "--host", "0.0.0.0", "--port", "0").returncode == 2
    wrong = run("--model", str(models["one"][0]), "--kv-cache-token", "5")
    assert wrong.returncode == 2 and "--kv-cache-tokens" in wrong.stderr


def test_generate_reads_lines_in_order(models):
    lines = [{"text": "a b c"}, {"ids": [5, 6, 7]}, {"messages": [{"role": "user", "content": "x"}]}]
    done = subprocess.run(
        [
            BINARY,
            "generate",
            "--model",
            str(models["one"][0]),
            "--max-new-tokens",
            "3",
            "--ignore-eos",
            "--json",
            "--threads",
            "1",
        ],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["meta_info"]["id"] for reply in replies] == ["0", "1", "2"]
    assert all(len(reply["output_ids"]) == len(reply["meta_info"]["output_token_logprobs"]) == 3 for reply in replies)
    bad = subprocess.run(
        [BINARY, "generate", "--model", str(models["one"][0])], input='{"txt": 1}\n', capture_output=True, text=True
    )
    assert bad.returncode == 2 and "line 1" in bad.stderr


def test_generate_gives_equal_prompts_other_answers_and_the_same_ones_again(models):
    command = [BINARY, "generate", "--model", str(models["one"][0]), "--max-new-tokens", "8", "--ignore-eos", "--json"]
    lines = '{"text": "a b c"}\n' * 4
    said = [subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    answers = [[json.loads(line)["output_ids"] for line in text.splitlines()] for text in said]
    assert answers[0] == answers[1] and len(set(map(tuple, answers[0]))) == 4


def test_ctrl_c_in_generate_says_how_many_answers_are_printed(models):
    command = [BINARY, "generate", "--model", str(models["one"][0]), "--max-new-tokens", "16", "--ignore-eos", "--json"]
    read, write = os.pipe()
    process = subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.close(read)

    def ask():
        with contextlib.suppress(BrokenPipeError):  # it has ended
            for _ in range(10000):
                os.write(write, b'{"text": "a b c"}\n')

    asking = threading.Thread(target=ask)
    asking.start()
    answers = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    answers += process.stdout.read().splitlines()
    said = process.stderr.read()
    assert process.wait() == 130
    asking.join()
    os.close(write)
    assert [json.loads(line)["meta_info"]["id"] for line in answers] == [str(i) for i in range(len(answers))]
    assert said.endswith(
        f"tritonforge: stopped by Interrupt; prompts whose answers are printed, whole: {len(answers)}; give those "
        "after them to go on\n"
    )


def test_generate_without_a_prompt_says_so_before_it_reads_the_model(models):
    command = [BINARY, "generate", "--model", str(models["one"][0])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.splitlines() == [
        "tritonforge: generate: no prompt: give --prompt TEXT, or JSON lines on stdin"
    ], done.stderr
