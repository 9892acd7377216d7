"""`tritonforge tokenize` against the `tokenizers` library: ids and texts of every string must be equal."""

import json
import os
import pathlib
import subprocess

import pytest
import tokenizers

from tokenizer_texts import everything, fuzzed

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
TINY = ROOT / "tests/data/tiny-tokenizer"
QWEN3 = ROOT.parent / "shared/data/qwen3-tokenizer"
GGUF = pathlib.Path.home() / ".cache/tritonforge-dev-model/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def tokenize(*flags, lines, check=True):
    done = subprocess.run(
        [BINARY, "tokenize", *map(str, flags)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert len(answers) == len(lines)
    return answers


def compare(path, reference, texts):
    expected = []
    for i in range(0, len(texts), 2000):  # in parts: the reference's Encoding objects are large
        expected += [e.ids for e in reference.encode_batch(texts[i : i + 2000], add_special_tokens=False)]
    found = [answer["ids"] for answer in tokenize("--tokenizer", path, lines=[{"text": text} for text in texts])]
    wrong = [(text, f, e) for text, f, e in zip(texts, found, expected) if f != e]
    assert not wrong, f"{len(wrong)} of {len(texts)} differ; the first: {wrong[0]!r:.600}"
    decoded = [
        answer["text"] for answer in tokenize("--tokenizer", path, "--decode", lines=[{"ids": ids} for ids in expected])
    ]
    assert decoded == reference.decode_batch(expected, skip_special_tokens=False)


def test_tiny_vocabulary_equals_the_library():
    reference = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json"))
    compare(TINY, reference, list(everything()) + list(fuzzed(10000)))


def test_llama_3s_way_equals_the_library(tmp_path):
    """Up to three digits a word, words that are tokens whatever the merges say, and a begin of text before what is
    encoded with special tokens (which nobody does here)."""
    definition = json.loads((TINY / "tokenizer.json").read_text())
    split = definition["pre_tokenizer"]["pretokenizers"][0]
    assert split["pattern"]["Regex"].count(r"|\p{N}|") == 1
    split["pattern"]["Regex"] = split["pattern"]["Regex"].replace(r"|\p{N}|", r"|\p{N}{1,3}|")
    definition["normalizer"] = None
    model = definition["model"]
    model["ignore_merges"] = True
    # Tokens that no merge makes any more: of two letters and more, of digits, with a space before.
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    model["merges"] = [m for i, m in enumerate(merges) if i % 7 or len("".join(m)) < 4]
    begin = {"id": "<|im_start|>", "ids": [definition["added_tokens"][1]["id"]], "tokens": ["<|im_start|>"]}
    byte_level = definition["post_processor"]
    first = {"SpecialToken": {"id": begin["id"], "type_id": 0}}
    definition["post_processor"] = {
        "type": "Sequence",
        "processors": [
            byte_level,
            {
                "type": "TemplateProcessing",
                "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {begin["id"]: begin},
            },
        ],
    }
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(definition))
    reference = tokenizers.Tokenizer.from_file(str(file))
    numbers = ["1234567", "x12 3456", "٣٤٥٦٧", "1e-05 100000.25", "²³¹4", "0x7f00ff00"]
    texts = numbers + list(everything())[::7] + list(fuzzed(2000))
    compare(file, reference, texts)
    definition["model"]["ignore_merges"] = False
    merged = tokenizers.Tokenizer.from_str(json.dumps(definition))
    words = [text for text in texts[-2000:] if merged.encode(text).ids != reference.encode(text).ids]
    assert len(words) > 20, "words that are tokens only because merges are ignored"


def test_qwen3_vocabulary_equals_the_library():
    if not QWEN3.exists():
        pytest.skip(f"{QWEN3} is not there")
    reference = tokenizers.Tokenizer.from_file(str(QWEN3 / "tokenizer.json"))
    compare(QWEN3, reference, list(everything()) + list(fuzzed(100000)))


def test_tokens_cut_inside_characters_decode_alike():
    reference = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json"))
    ids = [reference.encode(text).ids for text in fuzzed(500, seed=3)]
    cut = [part for one in ids for part in (one[1:], one[:-1], one[::-1], one[::2])] + [[10**9, -1, 5], []]
    expected = [reference.decode([i for i in one if 0 <= i < 2**32], skip_special_tokens=True) for one in cut]
    found = tokenize("--tokenizer", TINY, "--decode", "--skip-special-tokens", lines=[{"ids": one} for one in cut])
    assert [answer["text"] for answer in found] == expected


def test_gguf_holds_the_same_vocabulary_as_qwen3():
    if not GGUF.exists() or not QWEN3.exists():
        pytest.skip(f"{GGUF} or {QWEN3} is not there")
    texts = [
        text
        for text in list(everything())[:60] + list(fuzzed(2000, seed=5))
        if not any(t in text for t in ("think>", "tool_"))
    ]
    lines = [{"text": text} for text in texts]
    assert tokenize("--tokenizer", GGUF, lines=lines) == tokenize("--tokenizer", QWEN3, lines=lines)


def test_added_tokens_that_are_searched_after_nfc(tmp_path):
    definition = json.loads((TINY / "tokenizer.json").read_text())
    definition["added_tokens"].append(
        {
            "id": 1 + max(t["id"] for t in definition["added_tokens"]),
            "content": "Ame\u0301lie",
            "special": False,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": True,
        }
    )
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(definition))
    reference = tokenizers.Tokenizer.from_file(str(file))
    compare(file, reference, ["x Ame\u0301lie y Am\u00e9lie<|im_end|>Am\u00e9lieAm\u00e9", "Ame\u0301", "Am\u00e9lie"])


def test_trained_vocabulary_loads_in_the_library(tmp_path):
    texts = [line for line in (ROOT / "docs/protocols.md").read_text().splitlines() if line] + [
        "Ångström e\u0301 <|im_end|> 世界"
    ] * 5
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for folder in ("a", "b"):
        subprocess.run(
            [
                BINARY,
                "tokenize",
                "--train",
                tmp_path / "texts.jsonl",
                "--vocab-size",
                "700",
                "--output",
                tmp_path / folder,
            ],
            check=True,
            capture_output=True,
        )
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "a/tokenizer.json"))
    assert reference.get_vocab_size() == 700
    assert reference.token_to_id("<|im_end|>") == 697 and "<|im_end|>" in texts[-1]
    compare(tmp_path / "a", reference, texts + list(fuzzed(500, seed=9)))


@pytest.mark.parametrize(
    "line, says",
    [
        ('{"text": 5}', "line 2: field 'text' must be a text"),
        ("{", "line 2: not valid JSON at byte"),
        ("[]", "line 2: expected an object"),
        ('{"texts": ""}', "line 2: field 'text' is missing"),
        ('{"text": "\\ud800"}', "line 2: not valid JSON"),
    ],
)
def test_a_bad_line_is_named(line, says):
    done = subprocess.run(
        [BINARY, "tokenize", "--tokenizer", TINY], input='{"text": "a"}\n' + line + "\n", capture_output=True, text=True
    )
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
    assert len(done.stdout.splitlines()) == 1  # what came before it is answered


def test_what_is_not_understood_is_refused_by_name(tmp_path):
    original = json.loads((TINY / "tokenizer.json").read_text())

    def message(**changes):
        changed = json.loads(json.dumps(original))
        for path, value in changes.items():
            at = changed
            *parents, last = path.split("__")
            for key in parents:
                at = at[int(key) if key.isdigit() else key]
            at[int(last) if last.isdigit() else last] = value
        (tmp_path / "tokenizer.json").write_text(json.dumps(changed))
        done = subprocess.run([BINARY, "tokenize", "--tokenizer", tmp_path], input="", capture_output=True, text=True)
        assert done.returncode in (1, 2) and tmp_path.name in done.stderr and done.stderr.count("\n") == 1
        return done.stderr

    assert "normalizer" in message(normalizer={"type": "NFKC"})
    assert "split" in message(pre_tokenizer__pretokenizers__0__pattern={"Regex": "\\p{N}{1,3}"})
    assert "byte_fallback" in message(model__byte_fallback=True)
    assert "dropout" in message(model__dropout=0.1)
    assert "decoder" in message(decoder={"type": "Metaspace"})
    assert "post_processor" in message(post_processor={"type": "BertProcessing"})
    assert "WordPiece" in message(model__type="WordPiece")
    assert "truncation" in message(truncation={"max_length": 4})
    assert "lstrip" in message(added_tokens__0__lstrip=True)
    assert "single_word" in message(added_tokens__0__single_word=True)
    assert "the reference would give" in message(added_tokens__0__id=99999)
    assert "not in the vocabulary" in message(model__merges__0=["zz", "qq"])
    assert "byte 0x41" in message(
        model__vocab={k: v for k, v in original["model"]["vocab"].items() if k != "A"},
        model__merges=[],
        added_tokens=[],
    )
