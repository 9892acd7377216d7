"""Lays the prose of Markdown files out: a paragraph or list item with a line above 120 columns is filled anew. Tables,
code and headings stay as they are. usage: tools/markdown.py FILE..."""

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
LIST_ITEM = re.compile(r"^(\s*)([-*+]|\d+\.)\s+")


def is_prose(line: str) -> bool:
    return bool(line.strip()) and not re.match(r"^\s*(\||#{1,6} |    |<|---+$)", line)


def fill(lines: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in lines):
        return lines
    first = re.match(r"^\s*(?:(?:[-*+]|\d+\.)\s+)?", lines[0]).group()
    text = " ".join(line.strip() for line in lines)[len(first.strip()) :].strip()
    text = re.sub(r"`[^`]*`", lambda code: code.group().replace(" ", "\0"), text)  # code stays on one line
    filled = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in filled]


def lay_out(text: str) -> str:
    out, block, fenced = [], [], False

    def end_block() -> None:
        out.extend(fill(block) if block else [])
        block.clear()

    for line in text.splitlines():
        if line.startswith("```"):
            end_block()
            fenced = not fenced
            out.append(line)
        elif fenced or not (is_prose(line) or (block and line.strip() and not line.startswith(("|", "#")))):
            end_block()
            out.append(line)
        else:
            if LIST_ITEM.match(line):
                end_block()
            block.append(line)
    end_block()
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
