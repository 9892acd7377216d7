"""Reads the project's Markdown: blocks, commands, links."""

import os
import pathlib
import re
import shlex

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
LISTED = ROOT / "tests/documents.txt"
# The first words of the lines that a reader may type. A block that begins with another one is no list of commands.
PROGRAMS = {
    "bench/pack",
    "bench/run",
    "build/tritonforge",
    "cmake",
    "curl",
    "docker",
    "git",
    "make",
    "nice",
    "openssl",
    "pip",
    "prometheus",
    "python",
    "python3",
    "ray",
    "requirements/install",
    "sbatch",
    "tar",
    "tensorboard",
    "tf/bin/pip",
    "tf/bin/tritonforge",
    "tritonforge",
    "./tritonforge",
    "until",
    "package/fresh_root",
}


def documents():
    """README.md, CONTRIBUTING.md and docs/, but for what comes from elsewhere and has tests of its own."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "src/README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    return [path for path in found if not path.name.startswith("from-")]


def blocks(text):
    """(language, file, lines) of each fenced block; language "" and file "" of an indented one."""
    lines, i = text.splitlines(), 0
    while i < len(lines):
        if fence := re.match(r"^```(\w*) ?(\S*)$", lines[i]):
            end = lines.index("```", i + 1)
            yield fence[1], fence[2], lines[i + 1 : end]
            i = end + 1
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip() or lines[i - 1].startswith("#")):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield "", "", [line[4:] for line in lines[i:end]]
            i = end
        else:
            i += 1


def joined(lines):
    """Lines that end with a backslash go on in the next one."""
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def without_comment(line):
    return re.sub(r"\s{2,}(#|->|=) .*$|\s{3,}\S.*$", "", line.strip()).strip()


def commands(text):
    """Every line of the blocks of commands: those in `sh`, and those without a language that begin with a program."""
    for language, _, lines in blocks(text):
        typed = [without_comment(line) for line in joined(lines) if line.strip() and not line.startswith("#")]
        begins = typed[0].split()[0] if typed and lines[0][:1].strip() else ""
        if language == "sh" or (language == "" and begins in PROGRAMS):
            yield from (line for line in typed if line)


def tritonforge_calls(text):
    """The words of each `tritonforge ...` in blocks and in the text, without what stands for something else."""
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))]
    for line in [*commands(text), *inline]:
        if not re.match(r"^(\S*/)?tritonforge [a-z]", line):
            continue
        try:
            yield line, shlex.split(line.split(" | ")[0].split(" > ")[0].split(" && ")[0])[1:]
        except ValueError:  # an apostrophe in what stands for something else
            yield line, line.split()[1:]


def anchors(text):
    """GitHub's names of the headings."""
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"`|\[|\]\([^)]*\)", "", heading).strip().lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    }


def listed():
    """tests/documents.txt: document -> {command: what runs it}"""
    entries, document, command = {}, None, None
    for line in LISTED.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            document = entries.setdefault(line, {})
        elif not line.startswith("    "):
            command = line.strip()
        else:
            document[command] = line.strip()
    return entries


def differences():
    """One line for each command of a document that is not listed, and for each listed one that no document has."""
    entries, found = listed(), []
    for path in documents():
        name = str(path.relative_to(ROOT))
        typed, known = set(commands(path.read_text())), entries.pop(name, {})
        if "*" not in known:
            found += [f"{name}: not in tests/documents.txt: {command}" for command in sorted(typed - known.keys())]
        found += [f"tests/documents.txt: not in {name}: {command}" for command in known.keys() - typed - {"*"}]
    return found + [f"tests/documents.txt: no document {name}" for name in entries]
