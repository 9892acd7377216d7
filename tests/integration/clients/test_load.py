"""Load as genai-bench and its like make it: many users at once, each with streams of chat completions that ignore the
end and count tokens by the usage of the last chunk. Every request is whole; nothing here is timed."""

import asyncio
import os

import openai

USERS, REQUESTS = 16, 6


async def stream(client, user, number):
    wanted = 8 + 5 * (user % 4)
    text, usage, finish, events = "", None, None, 0
    async for chunk in await client.chat.completions.create(
        model="tiny-base",
        messages=[{"role": "user", "content": f"{user} " + "relu " * (1 + 40 * (number % 3))}],
        max_completion_tokens=wanted,
        temperature=0.7,
        seed=user * 100 + number,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True, "min_tokens": wanted},
    ):
        events += 1
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert finish == "length" and usage.completion_tokens == wanted and usage.prompt_tokens > 10
    assert events >= 2 and text
    return text


async def load():
    async with openai.AsyncOpenAI(base_url=os.environ["ENGINE_URL"] + "/v1", api_key="none", max_retries=0) as client:

        async def user(which):
            return [await stream(client, which, number) for number in range(REQUESTS)]

        return await asyncio.gather(*(user(which) for which in range(USERS)))


def test_every_request_of_a_load_is_whole_and_repeats():
    assert asyncio.run(load()) == asyncio.run(load())
