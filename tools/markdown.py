"""Breaks the lines of Markdown prose that are wider than 120 columns; where an author began a line, one begins still.
Tables, code and headings stay as they are. usage: tools/markdown.py FILE..."""

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120


def is_prose(line: str) -> bool:
    return not re.match(r"^(\||#{1,6} |    |<|---+$)", line)


def keep_together(code: re.Match) -> str:
    """Code in a sentence stays on one line where it is not too long for that."""
    return code.group().replace(" ", "\0") if len(code.group()) < WIDTH // 2 else code.group()


def wrap(line: str) -> list[str]:
    first = re.match(r"^\s*(?:(?:[-*+]|\d+\.)\s+)?", line).group()
    text = line[len(first) :]
    if text.count("`") % 2 == 0:  # no code that began on the line before, or ends on the next
        text = re.sub(r"`[^`]*`", keep_together, text)
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\0", " ") for part in lines]


def lay_out(text: str) -> str:
    out, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        out += [line] if fenced or len(line) <= WIDTH or not is_prose(line) else wrap(line)
    return "\n".join(out) + "\n"


def main(names: list[str]) -> int:
    for name in names:
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        after = lay_out(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
