"""Lays out Markdown prose: a paragraph or list item with a line wider than 120 columns is filled anew, whole, so that
no words are left over on lines of their own. What fits stays as its author broke it; tables, code and headings stay as
they are. usage: tools/markdown.py [--all] FILE...        (--all: every paragraph is filled anew)"""

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
MARKER = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
# Where no line may end: what follows would begin a list, a heading, a quote, a table or a rule, or is a number's unit.
NO_BREAK = re.compile(r" (?=(?:[-*+=]+|\d+[.)]|#{1,6}|>\S*|\|\S*)(?: |$))|(?<=\d) (?=%)")


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def is_prose(line: str) -> bool:
    return bool(line.strip()) and not re.match(r"^\s*(\||#{1,6} |<|---+$|```)", line)


def keep_together(code: re.Match) -> str:
    """Code in a sentence stays on one line where it is not too long for that."""
    return code.group().replace(" ", "\0") if len(code.group()) < 3 * WIDTH // 4 else code.group()


def fill(lines: list[str]) -> list[str]:
    marker = MARKER.match(lines[0])
    first = marker.group() if marker else " " * indent_of(lines[0])
    text = " ".join([lines[0][len(first) :].strip(), *(line.strip() for line in lines[1:])])
    text = NO_BREAK.sub("\0", re.sub(r"`[^`]*`", keep_together, text))
    filled = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in filled]


def lay_out(text: str, everything: bool = False) -> str:
    out: list[str] = []
    paragraph: list[str] = []
    fenced = False

    def end() -> None:
        wide = any(len(line) > WIDTH for line in paragraph)
        out.extend(fill(paragraph) if paragraph and (wide or everything) else paragraph)
        paragraph.clear()

    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        goes_on = bool(paragraph) and not MARKER.match(line)
        if goes_on:
            marker = MARKER.match(paragraph[0])
            goes_on = indent_of(line) == (len(marker.group()) if marker else indent_of(paragraph[0]))
        code = indent_of(line) >= 4 and not goes_on and not MARKER.match(line)
        if fenced or fence or code or not is_prose(line):
            end()
            out.append(line)
        else:
            if not goes_on:
                end()
            paragraph.append(line)
            if line.endswith(("  ", "\\")):  # a break that is meant
                out.extend(paragraph)
                paragraph.clear()
    end()
    return "\n".join(out) + "\n"


def main(arguments: list[str]) -> int:
    everything = "--all" in arguments
    for name in arguments:
        if name == "--all":
            continue
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        after = lay_out(before, everything)
        if after != before:
            path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
