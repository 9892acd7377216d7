"""Texts on which a tokenizer can differ: code, prose, ten scripts, emoji, every Unicode category, fuzzed strings."""

import pathlib
import random
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "<|im_",
    "|>",
    "<|im_end",
    "<<|im_end|>>",
]

PROSE = [
    "It's the writer's job; they'LL say \"we've done\" — I'm sure you'd agree, don't you? 'Tis 'twas O'Neil's.",
    "The quick brown fox jumps over 13 lazy dogs, 1,234.56 times — at 10:30 o'clock...",
    "Привет, мир! Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Γειά σου Κόσμε. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "مرحبا بالعالم، كيف حالكم اليوم؟ ١٢٣",
    "שלום עולם, מה שלומך היום?",
    "नमस्ते दुनिया, आप कैसे हैं? १२३",
    "สวัสดีชาวโลก วันนี้อากาศดีมาก",
    "你好,世界!今天天气很好。一二三",
    "こんにちは世界、カタカナとひらがな。ガギグ",
    "안녕하세요 세계! 각각 값",
    "বাংলা ভাষা — কেমন আছেন?",
    "გამარჯობა მსოფლიო",
    "Բարեւ աշխարհ",
    "தமிழ் மொழி",
    "Việt Nam: Tiếng Việt có dấu",
    "naïve café coöperate Ångström ﬁne ½ ² x³ Ⅷ ㈱ ℵ",
    "e\u0301 a\u0308\u0323 o\u0323\u0302 q\u0307\u0323 \u0344 \u0958 \u2126 \u212b \uf900",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ 😀😃 #️⃣",
    "'ſ 'S 'ſt x'ſy 'K 'İ 'ı 'ﬆ 'ʼn 'ss 'RE're 'lL 'Ll 'd' '' '\n's",
]
WHITE = [
    "a  b   c\n\n\n  d\t\t e \n",
    "\r\n\r\n x\r y\n\r",
    "   ",
    "\n",
    " \n ",
    "\u3000a\u00a0 b\u2003\u2003c\x85d\x1c e\u200b f\ufeff",
    "x \n  y",
    "x  \u2028 y ",
    "1 2  3   4\n5\r6",
]


def fragments():
    files = sorted(ROOT.glob("src/**/*.cpp")) + sorted(ROOT.glob("tests/**/*.py")) + sorted(ROOT.glob("docs/*.md"))
    return [file.read_text() for file in files[:40]]


def every_code_point():
    """Every code point in its block and between letter, space and digit; every mark and composed one in a stack."""
    for i in range(0, len(POINTS), 509):
        block = list(map(chr, POINTS[i : i + 509]))
        yield "".join(block)
        yield "".join("a" + c + " " + c + "1" for c in block)
        yield "".join(
            "a" + c + "\u0334" + "\u0345" + c + "\u0301"
            for c in block
            if unicodedata.category(c)[0] == "M" or unicodedata.normalize("NFD", c) != c
        )


def categories():
    by_category = {}
    for c in POINTS:
        by_category.setdefault(unicodedata.category(chr(c)), []).append(chr(c))
    rng = random.Random(7)
    for members in by_category.values():
        yield "".join(rng.sample(members, min(len(members), 200)))
        yield " ".join(rng.choices(members, k=100))


def everything():
    yield ""
    yield from PROSE + WHITE + SPECIAL
    yield from fragments()
    yield from categories()
    yield from every_code_point()
    yield "a" * 5000 + " " * 3000 + "\n" * 1000 + "=" * 4000 + "ab" * 3000 + "世" * 700


def fuzzed(count, seed=20261121):
    """Random concatenations of random characters and of pieces that matter to the pattern, NFC or added tokens."""
    rng = random.Random(seed)
    words = [w for text in fragments() for w in text.split(" ")][:20000]
    marks = [chr(c) for c in POINTS if unicodedata.combining(chr(c))]
    composed = [chr(c) for c in POINTS if unicodedata.normalize("NFD", chr(c)) != chr(c) and not 0xAC00 <= c < 0xD7A4]
    odd = [
        "'",
        "'s",
        "'LL",
        "'ſ",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "\u3000",
        "\x85",
        "\xa0",
        "\u200d",
        "\ufe0f",
        "0",
        "٣",
        "½",
        "_",
        "()",
        "{}",
        "\0",
    ]

    def piece():
        kind = rng.randrange(9)
        if kind < 2:
            return rng.choice(words)
        if kind == 2:
            return rng.choice(odd)
        if kind == 3:
            return chr(rng.choice(POINTS))
        if kind == 4:
            return rng.choice(odd) * rng.randrange(1, 6)
        if kind == 5:
            return rng.choice(PROSE)[rng.randrange(10) :][: rng.randrange(1, 12)]
        if kind == 6:
            return chr(rng.randrange(32, 127))
        if kind == 7:
            return rng.choice(composed) + "".join(rng.choices(marks, k=rng.randrange(4)))
        return (
            rng.choice(SPECIAL)
            if rng.random() < 0.3
            else chr(rng.randrange(0x1100, 0x1200)) + chr(rng.randrange(0xAC00, 0xD7A4))
        )

    for _ in range(count):
        yield "".join(piece() for _ in range(rng.randrange(1, 14)))
