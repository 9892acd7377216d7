"""openai's client against /v1, as its users call it. The model is models/tiny-base."""

import math
import os

import openai
import pytest

CHAT = [{"role": "user", "content": "Write relu."}]
TOOL = {
    "type": "function",
    "function": {"name": "run", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}},
}


@pytest.fixture
def client():
    with openai.OpenAI(base_url=os.environ["ENGINE_URL"] + "/v1", api_key="none", max_retries=0) as made:
        yield made


def chat(client, **more):
    return client.chat.completions.create(**{"model": "tiny", "messages": CHAT, "max_tokens": 24, "seed": 3} | more)


def complete(client, **more):
    return client.completions.create(**{"model": "tiny", "prompt": "import torch", "max_tokens": 8, "seed": 3} | more)


def test_models(client):
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id) == model and model.id == "tiny-base"
    with pytest.raises(openai.NotFoundError, match="did you mean 'tiny-base'"):
        client.models.retrieve("tiny-bas")


def test_a_stream_holds_what_the_whole_answer_does(client):
    whole = chat(client, n=2, logprobs=True, top_logprobs=2)
    texts, tokens, finish, usage = ["", ""], [[], []], [None, None], None
    stream = chat(client, n=2, logprobs=True, top_logprobs=2, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            tokens[choice.index] += choice.logprobs.content if choice.logprobs else []
            finish[choice.index] = choice.finish_reason or finish[choice.index]
    assert texts == [choice.message.content for choice in whole.choices] and texts[0] != texts[1]
    assert tokens == [choice.logprobs.content for choice in whole.choices]
    assert finish == [choice.finish_reason for choice in whole.choices]
    assert usage.completion_tokens == whole.usage.completion_tokens == sum(map(len, tokens))
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_log_probs_are_of_one_distribution(client):
    for temperature in (0, 0.5, 1.5):
        content = chat(client, logprobs=True, top_logprobs=20, temperature=temperature).choices[0].logprobs.content
        for token in content:
            alternatives = [other.logprob for other in token.top_logprobs]
            assert len(alternatives) == 20 and alternatives == sorted(alternatives, reverse=True)
            assert sum(map(math.exp, alternatives)) <= 1 + 1e-5
            listed = [other.logprob for other in token.top_logprobs if other.bytes == token.bytes]
            assert token.logprob in listed or token.logprob <= alternatives[-1]
            if temperature == 0:
                assert token.logprob == alternatives[0] and token.token == token.top_logprobs[0].token
    assert chat(client).choices[0].logprobs is None
    with pytest.raises(openai.BadRequestError, match="'top_logprobs' needs 'logprobs'"):
        chat(client, top_logprobs=2)
    with pytest.raises(openai.BadRequestError, match="between 0 and 20, not 21"):
        chat(client, logprobs=True, top_logprobs=21)


def test_bias_and_penalties(client):
    said = complete(client, temperature=0, max_tokens=120, logprobs=1).choices[0].logprobs.tokens
    # A token id from the engine's own list of what was most likely: without it another one is said first.
    first = chat(client, temperature=0, logprobs=True).choices[0].logprobs.content[0]
    ids = client.post("/tokenize", body={"prompt": first.token}, cast_to=object)["tokens"]
    assert len(ids) == 1
    without = chat(client, temperature=0, logprobs=True, logit_bias={str(ids[0]): -100})
    assert without.choices[0].logprobs.content[0].token != first.token
    assert all(token.token != first.token for token in without.choices[0].logprobs.content)
    only = chat(client, temperature=1.0, logit_bias={ids[0]: 100}, max_tokens=3, logprobs=True)
    assert [token.token for token in only.choices[0].logprobs.content] == [first.token] * 3
    penalised = complete(client, temperature=0, max_tokens=120, logprobs=1, frequency_penalty=2, presence_penalty=2)
    again = penalised.choices[0].logprobs.tokens
    assert again[0] == said[0] and len(set(again)) > len(set(said))
    scaled = complete(client, temperature=0, max_tokens=120, logprobs=1, extra_body={"repetition_penalty": 2})
    assert len(set(scaled.choices[0].logprobs.tokens)) > len(set(said))


def test_completions(client):
    echoed = complete(client, echo=True, logprobs=2, temperature=0, max_tokens=4).choices[0]
    plain = complete(client, logprobs=2, temperature=0, max_tokens=4).choices[0]
    assert echoed.text == "import torch" + plain.text
    lists = echoed.logprobs
    assert lists.tokens[-4:] == plain.logprobs.tokens and "".join(lists.tokens) == echoed.text
    assert lists.token_logprobs[0] is None and all(value <= 0 for value in lists.token_logprobs[1:])
    assert lists.top_logprobs[0] is None and all(len(each) == 2 for each in lists.top_logprobs[1:])
    assert [echoed.text[offset:].startswith(token) for offset, token in zip(lists.text_offset, lists.tokens)] == [
        True
    ] * len(lists.tokens)
    scored = complete(client, prompt=["import torch", "x y"], echo=True, logprobs=0, max_tokens=0)
    assert [choice.text for choice in scored.choices] == ["import torch", "x y"]
    assert scored.choices[0].logprobs.token_logprobs == lists.token_logprobs[:-4]
    streamed = list(complete(client, echo=True, logprobs=2, temperature=0, max_tokens=4, stream=True))
    assert "".join(chunk.choices[0].text for chunk in streamed) == echoed.text
    assert [t for chunk in streamed for t in chunk.choices[0].logprobs.tokens] == lists.tokens
    assert [o for chunk in streamed for o in chunk.choices[0].logprobs.text_offset] == lists.text_offset


def test_the_best_of_several(client):
    every = complete(client, n=6, logprobs=0).choices
    means = [sum(c.logprobs.token_logprobs) / len(c.logprobs.tokens) for c in every]
    best = complete(client, n=2, best_of=6, logprobs=0)
    order = sorted(range(6), key=lambda i: -means[i])
    assert [choice.text for choice in best.choices] == [every[i].text for i in order[:2]]
    assert [choice.index for choice in best.choices] == [0, 1]
    assert best.usage.completion_tokens == sum(len(c.logprobs.tokens) for c in every)
    for wrong, tells in (({"best_of": 1, "n": 2}, "less than 'n'"), ({"best_of": 2, "stream": True}, "streamed")):
        with pytest.raises(openai.BadRequestError, match=tells):
            complete(client, **wrong)


def test_stops_seeds_and_lengths(client):
    free = complete(client, temperature=0, max_tokens=30).choices[0].text
    stop = free[10:14]
    stopped = complete(client, temperature=0, max_tokens=30, stop=["no such text", stop]).choices[0]
    assert stopped.text == free[: free.index(stop)] and stopped.finish_reason == "stop"
    assert complete(client, max_tokens=20).choices[0].text == complete(client, max_tokens=20).choices[0].text
    assert complete(client, seed=4, max_tokens=20).choices[0].text != complete(client, max_tokens=20).choices[0].text
    long = chat(client, temperature=0, max_tokens=None, max_completion_tokens=5)
    assert long.usage.completion_tokens == 5 and long.choices[0].finish_reason == "length"
    said = complete(client, temperature=0, logprobs=0).choices[0].logprobs.tokens[2]
    ids = client.post("/tokenize", body={"prompt": said}, cast_to=object)["tokens"]
    ended = complete(client, temperature=0, max_tokens=30, extra_body={"stop_token_ids": ids})
    assert ended.usage.completion_tokens == 3 and ended.choices[0].finish_reason == "stop"
    longer = complete(client, temperature=0, max_tokens=30, extra_body={"stop_token_ids": ids, "min_tokens": 9})
    assert longer.usage.completion_tokens >= 9


def test_refusals_are_openais(client):
    cases = [
        (openai.BadRequestError, "did you mean 'temperature'", "temprature", {"extra_body": {"temprature": 1}}),
        (openai.BadRequestError, "top_p", "top_p", {"top_p": 2}),
        (
            openai.UnprocessableEntityError,
            "does not constrain",
            "response_format",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
        ),
        (openai.UnprocessableEntityError, "does not constrain", "guided_regex", {"extra_body": {"guided_regex": "a"}}),
        (openai.UnprocessableEntityError, "tool_choice", "tool_choice", {"tools": [TOOL], "tool_choice": "required"}),
        (openai.BadRequestError, "logit_bias", "logit_bias", {"logit_bias": {"x": 1}}),
    ]
    for kind, tells, field, wrong in cases:
        with pytest.raises(kind, match=tells) as refused:
            chat(client, **wrong)
        assert refused.value.type == "invalid_request_error" and refused.value.param == field, refused.value.body
    with pytest.raises(openai.UnprocessableEntityError, match="no embeddings here"):
        client.embeddings.create(model="tiny", input="x")


def test_tools_are_shown_to_the_model(client):
    shown = chat(client, tools=[TOOL], tool_choice="auto", temperature=0)
    assert shown.usage.prompt_tokens > chat(client, temperature=0).usage.prompt_tokens
    assert shown.choices[0].message.tool_calls is None and shown.choices[0].message.content
    hidden = chat(client, tools=[TOOL], tool_choice="none", temperature=0)
    assert hidden.choices[0].message.content == chat(client, temperature=0).choices[0].message.content
