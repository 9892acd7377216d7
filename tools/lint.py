"""Checks the sources: one line a finding, one line at the end. Exit 1 where there is a finding.

usage: tools/lint.py [--format] [--tidy SECONDS|all] [CHECK ...]       (make lint, make format)

  format    C++ as the pinned clang-format lays it out (.clang-format)
  width     no line above 120 columns, strings included; what stands between `clang-format off` and `on`, tables,
            code and headings of Markdown, and data are excepted
  tidy      clang-tidy (.clang-tidy) over the C++ files that differ from the merge base with main; on main, from the
            commit before. It reads compile commands only: nothing is built. At most SECONDS (150) are spent, the files
            that were not reached are counted; `all` takes every changed file, however long.
  ruff      Python (pyproject.toml): ruff check and ruff format
  shell     shellcheck
  includes  what a folder of src/ includes stays within its DEPS (cmake/includes.py)
  mutants   each wrong line of tests/mutants/ finds its place and names a test that is there
  claims    the tests that Markdown names, and the files that it links, are there
  commands  every command of a document is in tests/documents.txt, which says what runs it, and none else is there

--format lays C++, Python and Markdown out instead of checking them. The tools are those of requirements/dev.txt
(`requirements/install --dev` puts them into an environment of their own).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "build-lint"  # compile commands for clang-tidy; nothing is compiled there
CPP = (".cpp", ".h", ".inl", ".cu", ".cuh")
TEXT = (*CPP, ".sh", ".cmake", ".md", ".yaml", ".yml", ".js", ".css", ".html", ".toml", ".txt")
WIDTH = 120
JOBS = os.cpu_count() or 1

Findings = list[str]


def run(command: list[str | Path], **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True, **options)


def git(*arguments: str) -> str:
    return run(["git", *arguments], check=True).stdout


def tool(name: str) -> Path:
    path = Path(run([ROOT / "requirements" / "install", "--dev-path"], check=True).stdout.strip()) / name
    if not path.exists():
        sys.exit(f"lint: {name} is not there: run requirements/install --dev")
    return path


def tracked() -> list[str]:
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def in_parallel(function, items) -> Findings:
    with ThreadPoolExecutor(JOBS) as pool:
        return [finding for found in pool.map(function, items) for finding in found]


def portions(items: list[str]) -> list[list[str]]:
    """As many as there are cores, so that a tool starts few times."""
    return [part for part in (items[i :: JOBS * 2] for i in range(JOBS * 2)) if part]


def clang_format(names: list[str]) -> Findings:
    program = tool("clang-format")

    def check(part: list[str]) -> Findings:
        result = run([program, "--dry-run", "--ferror-limit=1", *part])
        places = re.findall(r"^(\S+:\d+):\d+: warning: ", result.stderr, re.MULTILINE)
        return [f"{place}: not as clang-format lays it out (make format)" for place in places]

    return in_parallel(check, portions([name for name in names if name.endswith(CPP)]))


def is_data(name: str) -> bool:
    files = ("docs/recipes.md", "tests/documents.txt")  # `tritonforge run --options`; commands as documents have them
    folders = ("problems/", "tests/data/", "tests/mutants/", "tests/golden/", "requirements/")
    return name in files or name.startswith(folders)


def is_shell(name: str) -> bool:
    with open(ROOT / name, "rb") as file:
        return bool(re.match(rb"#!.*\b(ba|da)?sh\b", file.readline(200)))


def wide_lines(name: str) -> Findings:
    findings, as_written, fenced = [], False, False
    for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
        as_written = "clang-format on" not in line and (as_written or "clang-format off" in line)
        if name.endswith(".md"):
            fenced ^= line.startswith("```")
            if fenced or line.startswith(("|", "#", "    ")):
                continue
        if len(line) > WIDTH and not as_written:
            findings.append(f"{name}:{number}: {len(line)} columns, {WIDTH} are the limit")
    return findings


def width(names: list[str]) -> Findings:
    return [
        finding
        for name in names
        if not is_data(name) and (name.endswith(TEXT) or name == "Makefile" or is_shell(name))
        for finding in wide_lines(name)
    ]


def changed_files() -> set[str]:
    """Against the merge base with main; on main itself against the commit before."""
    head = git("rev-parse", "HEAD").strip()
    base = ""
    for main in ("main", "origin/main"):
        found = run(["git", "merge-base", "HEAD", main])
        if found.returncode == 0 and found.stdout.strip() != head:
            base = found.stdout.strip()
            break
    if not base:
        parent = run(["git", "rev-parse", "--verify", "-q", "HEAD~1"])
        base = parent.stdout.strip() if parent.returncode == 0 else head
    names = git("diff", "--name-only", "-z", base).split("\0")
    return set(names) | set(git("ls-files", "-z", "--others", "--exclude-standard").split("\0"))


def compile_commands() -> dict[str, list[dict]]:
    """Of each file on its own: no precompiled header (gcc's cannot be read by clang), no unity build."""
    python = run([ROOT / "requirements" / "install", "--python"], check=True).stdout.strip()
    configured = run(
        [
            "cmake",
            "-S",
            ROOT,
            "-B",
            COMMANDS,
            "-G",
            "Ninja",
            f"-DTRITONFORGE_PYTHON={python}",
            "-DTF_UNITY=OFF",
            "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
        ]
    )
    if configured.returncode != 0:
        sys.exit(f"lint: cmake does not configure {COMMANDS}:\n{configured.stdout}{configured.stderr}")
    path = COMMANDS / "compile_commands.json"
    entries = json.loads(path.read_text())
    for entry in entries:
        entry["command"] = entry["command"].replace(" -fpch-preprocess", "")
    path.write_text(json.dumps(entries))
    return {os.path.relpath(entry["file"], ROOT): entry for entry in entries}


def sources_of(header: str, sources: list[str]) -> list[str]:
    """One source through which a header is seen: its own, else the first that includes it."""
    own = str(Path(header).with_suffix(".cpp"))
    if own in sources:
        return [own]
    name = header.split("/", 1)[1] if "/" in header else header
    return [s for s in sources if f'"{name}"' in (ROOT / s).read_text(encoding="utf-8")][:1]


class Tidy:
    def __init__(self, seconds: float):
        self.seconds, self.reached, self.left = seconds, 0, []

    def __call__(self, names: list[str]) -> Findings:
        changed = sorted(name for name in changed_files() if name.endswith((".cpp", ".h", ".inl")) and name in names)
        if not changed:
            return []
        known = compile_commands()
        sources = [name for name in known if (ROOT / name).is_file()]
        wanted = [name for name in changed if name in known]
        for header in changed:
            if not header.endswith(".cpp"):
                wanted += [source for source in sources_of(header, sources) if source not in wanted]
        program, ends = tool("clang-tidy"), time.monotonic() + self.seconds
        ours = "|".join(re.escape(name) for name in changed)

        def look(name: str) -> Findings:
            if time.monotonic() > ends:
                self.left.append(name)
                return []
            self.reached += 1
            result = run([program, "--quiet", "-p", COMMANDS, f"--header-filter=({ours})$", ROOT / name])
            found = re.findall(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", result.stdout, re.MULTILINE)
            if result.returncode != 0 and not found:
                return [f"{name}: clang-tidy failed: {(result.stderr or result.stdout).strip().splitlines()[-1]}"]
            return [f"{os.path.relpath(file, ROOT)}:{line}: {text}" for file, line, text in found]

        return sorted(set(in_parallel(look, wanted)))


def ruff(_: list[str]) -> Findings:
    program = tool("ruff")
    checked = run([program, "check", "--quiet", "--output-format=concise", "."]).stdout.splitlines()
    laid_out = run([program, "format", "--check", "."]).stdout.splitlines()
    findings = [line for line in checked if re.match(r"\S+:\d+:", line)]
    return findings + [
        f"{line.removeprefix('Would reformat: ')}: not as ruff lays it out (make format)"
        for line in laid_out
        if line.startswith("Would reformat: ")
    ]


def shellcheck(names: list[str]) -> Findings:
    scripts = [name for name in names if is_shell(name)]
    return run([tool("shellcheck"), "--format=gcc", *scripts]).stdout.splitlines()


def includes(_: list[str]) -> Findings:
    return run([sys.executable, ROOT / "cmake" / "includes.py", "check"]).stderr.splitlines()


def mutants(_: list[str]) -> Findings:
    result = run([sys.executable, ROOT / "tests" / "mutants" / "run.py", "--list"])
    found = [line for line in result.stdout.splitlines() if line.startswith("error")]
    return found if found or result.returncode == 0 else result.stderr.splitlines()[-1:]


def claims(names: list[str]) -> Findings:
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in names if name.endswith((".md", ".py", ".cpp"))}
    tests = set()
    for name, source in text.items():
        tests |= {f"{suite}.{test}" for suite, test in re.findall(r"\bTEST(?:_[FP])?\((\w+), (\w+)\)", source)}
        tests |= {f"{Path(name).name}::{test}" for test in re.findall(r"^def (test_\w+)", source, re.MULTILINE)}
    suites = {test.split(".")[0] for test in tests}

    def check(name: str) -> Findings:
        findings = []
        for number, line in enumerate(text[name].splitlines(), 1):
            said = re.findall(r"\btest_\w+\.py::test_\w+", line)
            said += [m[0] for m in re.finditer(r"`(\w+)\.[A-Z]\w+`", line) if m[1] in suites]
            findings += [f"{name}:{number}: no test {one}" for one in said if one.strip("`") not in tests]
            for link in re.findall(r"\]\(((?:\.\./)*\w[\w./-]*)(?:#[^)]*)?\)", line):
                if not (ROOT / name).parent.joinpath(link).exists():
                    findings.append(f"{name}:{number}: no file {link}")
        return findings

    return [finding for name in text if name.endswith(".md") for finding in check(name)]


def commands(_: list[str]) -> Findings:
    sys.path.insert(0, str(ROOT / "tests" / "integration"))
    import documents

    return documents.differences()


def lay_out() -> int:
    names = [name for name in tracked() if name.endswith(CPP)]
    program = tool("clang-format")
    in_parallel(lambda part: run([program, "-i", *part], check=True) and [], portions(names))
    prose = [name for name in tracked() if name.endswith(".md") and not is_data(name)]
    run([sys.executable, ROOT / "tools" / "markdown.py", *prose], check=True)
    return run([tool("ruff"), "format", "--quiet", "."]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    parser.add_argument("--format", action="store_true")
    parser.add_argument("--tidy", default="150", metavar="SECONDS|all")
    arguments = parser.parse_args()
    if arguments.format:
        return lay_out()
    tidy = Tidy(float("inf") if arguments.tidy == "all" else float(arguments.tidy))
    checks = {
        "format": clang_format,
        "width": width,
        "ruff": ruff,
        "shell": shellcheck,
        "includes": includes,
        "mutants": mutants,
        "claims": claims,
        "commands": commands,
        "tidy": tidy,
    }
    for name in arguments.checks:
        if name not in checks:
            parser.error(f"unknown check '{name}' (known: {', '.join(checks)})")
    names, total, summary = tracked(), 0, []
    for name, check in checks.items():
        if arguments.checks and name not in arguments.checks:
            continue
        started = time.monotonic()
        findings = check(names)
        print("".join(f"{finding} [{name}]\n" for finding in findings), end="", flush=True)
        total += len(findings)
        summary.append(f"{name} {len(findings)} ({time.monotonic() - started:.0f} s)")
    if tidy.left:
        print(
            f"clang-tidy: {tidy.reached} files looked at, {len(tidy.left)} not reached in {tidy.seconds:.0f} s: "
            "make lint TIDY=all"
        )
    print("lint: " + ("; ".join(summary)) + (f": {total} findings" if total else ": clean"))
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
