"""`tritonforge tokenize --chat` against Jinja with the settings of transformers: 200 conversations a template."""

import json
import os
import pathlib
import random
import subprocess

import jinja2.sandbox
import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
TINY = ROOT / "tests/data/tiny-tokenizer"
TEMPLATES = {  # Apache-2.0, as Qwen publishes them; the one line that Meta-Llama-3 Instruct has
    "qwen2.5": (ROOT / "tests/data/chat-templates/qwen2.5.jinja").read_text(),
    "qwen3": (ROOT / "tests/data/chat-templates/qwen3.jinja").read_text(),
    "qwen3-later": (ROOT / "tests/data/chat-templates/qwen3-later.jinja").read_text(),
    "llama3": (ROOT / "tests/data/chat-templates/llama3.jinja").read_text().removesuffix("\n"),
    "plain": None,  # the one that the trainer writes
}
WORDS = [
    "kernel",
    "tl.load(x)",
    "é世界",
    "\n",
    "\n\n",
    "  ",
    '"quoted"',
    "\\n",
    "<tool_response>",
    "</tool_response>",
    "<b>&amp;</b>",
    "'s",
    "\t",
    "{{ x }}",
    "{% if %}",
    "👍",
    "\u0001",
    "\x7f",
]
THOUGHTS = ["", "\n", "let me think\nstep by step\n", "\n\nabc", "a</think>b"]


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return env


def value(rng, depth=0):
    kind = rng.randrange(9 if depth < 2 else 7)
    if kind < 2:
        return rng.choice(WORDS) * rng.randrange(3)
    if kind == 2:
        return rng.choice([0, -1, 7, 2**63 - 1, 10**15])
    if kind == 3:
        return rng.choice(
            [
                0.1,
                1.0,
                -2.5e-7,
                1e16,
                1e15,
                123456789012345680.0,
                1e-4,
                1e-5,
                5e-324,
                1.7976931348623157e308,
                -0.0,
                0.30000000000000004,
            ]
        )
    if kind == 4:
        return rng.choice([True, False, None])
    if kind == 5:
        return rng.choice([[], {}])
    if kind == 6:
        return rng.random() * 10 ** rng.randrange(-20, 20)
    if kind == 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(WORDS) + str(i): value(rng, depth + 1) for i in range(rng.randrange(4))}


def content(rng, thoughts):
    text = "".join(rng.choices(WORDS, k=rng.randrange(6)))
    if thoughts and rng.random() < 0.4:
        opening = rng.choice(["<think>", "<think>\n", "", "x<think>\n"])
        text = opening + rng.choice(THOUGHTS) + rng.choice(["</think>", "\n</think>\n\n"]) + text
    return text


def tool_call(rng):
    arguments = rng.choice([{"z": value(rng), "a": value(rng)}, {}, json.dumps({"b": 1}), value(rng)])
    function = {"name": rng.choice(["run", "compile_kernel", "é"]), "arguments": arguments}
    return rng.choice([{"type": "function", "id": "1", "function": function}, function])


def conversation(rng, plain):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": content(rng, False)})
    for _ in range(rng.randrange(1, 8)):
        role = rng.choice(
            ["user", "assistant", "user", "assistant", "system" if messages else "user", "user" if plain else "tool"]
        )
        message = {"role": role, "content": content(rng, role == "assistant" and not plain)}
        if role == "user" and rng.random() < 0.15:
            message["content"] = "<tool_response>" + message["content"] + "</tool_response>"
        if role == "assistant" and not plain:
            if rng.random() < 0.3:
                message["reasoning_content"] = rng.choice([*THOUGHTS, None])
            if rng.random() < 0.4:
                message["tool_calls"] = [tool_call(rng) for _ in range(rng.randrange(3))]
        messages.append(message)
        if role == "tool" and rng.random() < 0.6:
            messages.append({"role": "tool", "content": content(rng, False)})
    tools = None
    if not plain and rng.random() < 0.4:
        tools = [
            {
                "type": "function",
                "function": {"name": "run", "description": content(rng, False), "parameters": value(rng)},
            }
            for _ in range(rng.randrange(3))
        ]
    return {"messages": messages, "tools": tools}


@pytest.fixture(params=TEMPLATES)
def model(request, tmp_path):
    folder = tmp_path / request.param
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    text = TEMPLATES[request.param]
    if text is None:
        (tmp_path / "texts.jsonl").write_text('{"text": "abc abc"}\n')
        subprocess.run(
            [BINARY, "tokenize", "--train", tmp_path / "texts.jsonl", "--vocab-size", "300", "--output", folder],
            check=True,
            capture_output=True,
        )
        text = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    else:
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": text}))
    return request.param, folder, environment().from_string(text)


def test_renders_as_jinja_does(model):
    name, folder, template = model
    rng = random.Random(20261121)
    conversations = [conversation(rng, name in ("plain", "llama3")) for _ in range(200)]
    conversations.append({"messages": [{"role": "user", "content": "hi"}], "tools": None})
    for prompt, thinking in [(True, True), (True, False), (False, True)]:
        flags = ([] if prompt else ["--no-generation-prompt"]) + ([] if thinking else ["--no-thinking"])
        done = subprocess.run(
            [BINARY, "tokenize", "--tokenizer", folder, "--chat", *flags],
            input="".join(json.dumps(c) + "\n" for c in conversations),
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        for one, answer in zip(conversations, answers, strict=True):
            expected = template.render(
                messages=one["messages"],
                tools=one["tools"],
                bos_token="<|begin_of_text|>",
                add_generation_prompt=prompt,
                enable_thinking=thinking,
            )
            assert answer["text"] == expected, one


@pytest.mark.parametrize(
    "request_, says",
    [
        ({"messages": []}, "'messages' must be a list that is not empty"),
        (
            {"messages": [{"role": "assistent", "content": ""}]},
            "line 1: messages[0]: unknown role 'assistent' (did you mean 'assistant'?)",
        ),
        ({"messages": [{"role": "user"}]}, "field 'content' is missing"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "part that is not"),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}]},
            "function 'f' has no 'arguments'",
        ),
        ({"messages": [{"role": "user", "content": ""}], "tools": [{}]}, "the plain chat format has no tools"),
    ],
)
def test_faults_are_named(request_, says):
    done = subprocess.run(
        [BINARY, "tokenize", "--tokenizer", TINY, "--chat"], input=json.dumps(request_), capture_output=True, text=True
    )
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1


def test_another_template_is_refused_by_name(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ bos_token }}[INST]"}))
    done = subprocess.run(
        [BINARY, "tokenize", "--tokenizer", tmp_path, "--chat"], input="", capture_output=True, text=True
    )
    assert done.returncode == 2 and "[INST]" in done.stderr and "is not understood" in done.stderr
