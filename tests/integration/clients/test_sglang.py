"""SGLang's client code (RuntimeEndpoint and programs over it), and /generate as its documentation calls it."""

import os
import sys
import types

import pytest
import requests

# sglang.utils imports this for notebooks.
display = types.ModuleType("IPython.display")
display.HTML = display.display = None
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython.display"] = display

import sglang

URL = os.environ["ENGINE_URL"]


@pytest.fixture(scope="module")
def endpoint():
    made = sglang.RuntimeEndpoint(URL)
    sglang.set_default_backend(made)
    return made


def generate(**body):
    reply = requests.post(URL + "/generate", json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply.json()


@sglang.function
def program(s, beginning):
    s += beginning
    s += sglang.gen("first", max_tokens=6, temperature=0)
    s += "\n"
    s += sglang.gen("second", max_tokens=4, temperature=0, stop="\n", frequency_penalty=0.5)


@sglang.function
def streamed(s):
    s += "import torch" + sglang.gen("answer", max_tokens=12, temperature=0)


def test_a_program_runs(endpoint):
    done = program.run(beginning="import torch")
    greedy = {"temperature": 0, "max_new_tokens": 6}
    assert done["first"] == generate(text="import torch", sampling_params=greedy)["text"]
    assert done.text() == "import torch" + done["first"] + "\n" + done["second"]
    batch = program.run_batch([{"beginning": "import torch"}, {"beginning": "class"}], num_threads=2)
    assert batch[0]["first"] == done["first"] and batch[1].text().startswith("class")


def test_a_program_streams(endpoint):
    state = streamed.run(stream=True)
    assert "".join(state.text_iter()) == "import torch" + state["answer"]


def test_log_probs_come_with_what_a_program_generates(endpoint):
    @sglang.function
    def scored(s):
        s += "import torch" + sglang.gen(
            "answer",
            max_tokens=3,
            temperature=0,
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=2,
            return_text_in_logprobs=True,
        )

    meta = scored.run().get_meta_info("answer")
    assert [text for _, _, text in meta["input_token_logprobs"]] == ["import", " torch"]
    assert meta["input_token_logprobs"][0][0] is None and meta["input_token_logprobs"][1][0] < 0
    assert len(meta["output_token_logprobs"]) == len(meta["output_top_logprobs"]) == 3
    assert [places[0] for places in meta["output_top_logprobs"]] == meta["output_token_logprobs"]


def test_lists_and_the_entries_of_each_prompt():
    two = generate(
        input_ids=[[1, 2, 3, 4], [5, 6, 7]],
        return_logprob=[True, False],
        logprob_start_len=[2, -1],
        top_logprobs_num=[3, 0],
        token_ids_logprob=[[10, 11], None],
        sampling_params=[{"max_new_tokens": 2, "temperature": 0}, {"max_new_tokens": 1}],
        rid=["a", "b"],
    )
    first, second = (one["meta_info"] for one in two)
    assert first["id"] == "a" and [token for _, token, _ in first["input_token_logprobs"]] == [3, 4]
    assert all(value < 0 for value, _, _ in first["input_token_logprobs"])
    assert [len(place) for place in first["input_top_logprobs"] + first["output_top_logprobs"]] == [3] * 4
    for place in first["input_token_ids_logprobs"] + first["output_token_ids_logprobs"]:
        assert [token for _, token, _ in place] == [10, 11]
    assert "output_token_logprobs" not in second and second["completion_tokens"] == 1


def test_prompts_are_scored_alike_however_they_come():
    ids = list(range(40, 100))
    whole = generate(input_ids=ids, return_logprob=True, logprob_start_len=0, sampling_params={"max_new_tokens": 0})
    again = generate(  # what is in the cache by now is computed again, since it is asked for
        input_ids=ids, return_logprob=True, logprob_start_len=30, sampling_params={"max_new_tokens": 1}
    )
    entries = whole["meta_info"]["input_token_logprobs"]
    assert len(entries) == 60 and again["meta_info"]["cached_tokens"] == 16
    for (a, token, _), (b, same, _) in zip(entries[30:], again["meta_info"]["input_token_logprobs"], strict=True):
        assert token == same and abs(a - b) < 1e-4


def test_what_is_not_there_is_refused_by_name():
    for body, status, tells in [
        ({"sampling_params": {"regex": "a+"}}, 422, "'regex' is not supported"),
        ({"sampling_params": {"json_schema": "{}"}}, 422, "'json_schema' is not supported"),
        ({"sampling_params": {"repetition_penalty": 3}}, 400, "repetition_penalty"),
        ({"lora_path": "x"}, 422, "'lora_path' is not supported"),
        ({"return_logprob": True, "logprob_start_len": 99}, 400, "logprob_start_len"),
        ({"return_logprob": True, "top_logprobs_num": 1000}, 400, "top_logprobs_num"),
        ({"return_logprobs": True}, 400, "did you mean 'return_logprob'"),
    ]:
        reply = requests.post(URL + "/generate", json={"text": "x", **body}, timeout=60)
        assert reply.status_code == status and tells in reply.json()["error"]["message"], reply.text


def test_tokens_and_texts():
    text = "import torch, é <think>"
    one = requests.post(URL + "/tokenize", json={"model": "m", "prompt": text}, timeout=60).json()
    assert one["count"] == len(one["tokens"]) and one["max_model_len"] > 0
    back = requests.post(URL + "/detokenize", json={"tokens": one["tokens"]}, timeout=60).json()
    assert back["text"] == back["prompt"] == text
    several = requests.post(URL + "/v1/tokenize", json={"prompt": ["a", text]}, timeout=60).json()
    assert several["tokens"][1] == one["tokens"] and several["count"][1] == one["count"]


def test_state():
    assert requests.get(URL + "/get_model_info", timeout=60).json()["is_generation"] is True
    assert (
        requests.get(URL + "/model_info", timeout=60).json() == requests.get(URL + "/get_model_info", timeout=60).json()
    )
    assert "kv_cache_tokens" in requests.get(URL + "/get_server_info", timeout=60).json()
    assert requests.get(URL + "/health_generate", timeout=60).status_code == 200
    assert requests.post(URL + "/flush_cache", timeout=60).status_code == 200
