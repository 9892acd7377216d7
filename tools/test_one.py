"""Runs one test, building only what it needs.

usage: tools/test_one.py TEST [BUILD_FOLDER]        (make test-one TEST=...)

  Scheduler.Chunks*                       unit tests by suite and name; * and ? as in a shell
  tests/integration/test_run.py           a pytest file or folder, or one case of it: path::case
  tests/golden/engine/padded.txt          the cases of one golden file
  gguf_fuzz                               a fuzz target
"""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)


def unit_folders(test: str) -> dict[str, str]:
    """The folders of tests/unit that hold a test of this name, each with the filter for its program."""
    wanted = test if "." in test else test + ".*"
    suite, _, name = wanted.partition(".")
    suite = suite.split("/")[-1]  # INSTANTIATE_TEST_SUITE_P puts its own name before the suite's
    name = name.split("/")[0]  # and the parameter's behind the test's
    found = {}
    for path in sorted((ROOT / "tests" / "unit").glob("*/*.cpp")):
        for known_suite, known_name in SUITE.findall(path.read_text(encoding="utf-8")):
            if fnmatch.fnmatchcase(known_suite, suite) and fnmatch.fnmatchcase(known_name, name):
                found[path.parent.name] = wanted if "/" in wanted else f"{wanted}:*/{wanted}/*"
    return found


def nearest(test: str) -> str:
    import difflib

    known = sorted(
        {s for p in (ROOT / "tests" / "unit").glob("*/*.cpp") for s, _ in SUITE.findall(p.read_text(encoding="utf-8"))}
    )
    close = difflib.get_close_matches(test.partition(".")[0], known, 1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def build(folder: Path, target: str) -> None:
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja"], check=True)
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    if subprocess.run(["cmake", "--build", folder, "-j", jobs, "--target", target]).returncode != 0:
        sys.exit(1)


def run_pytest(folder: Path, test: str) -> int:
    build(folder, "tritonforge")
    python = subprocess.run(
        [ROOT / "requirements" / "install", "--python"], check=True, capture_output=True, text=True
    ).stdout.strip()
    arguments = [test]
    if test.endswith(".txt"):  # tests/golden/engine/padded.txt: its cases are named engine/padded: ...
        case = Path(test).resolve().relative_to(ROOT / "tests" / "golden").with_suffix("")
        arguments = ["tests/golden", "-k", str(case)]
    environment = dict(os.environ, TRITONFORGE_BINARY=str(folder / "tritonforge"), TRITONFORGE_ROOT=str(ROOT))
    return subprocess.run([python, "-m", "pytest", "-q", *arguments], cwd=ROOT, env=environment).returncode


def main(arguments: list[str]) -> int:
    if not arguments or not arguments[0] or len(arguments) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    test = arguments[0]
    folder = Path(arguments[1] if len(arguments) == 2 else "build").resolve()
    if (ROOT / test.split("::")[0]).exists():
        return run_pytest(folder, test)
    if (ROOT / "tests" / "fuzz" / f"{test}.cpp").exists():
        build(folder, test)
        return subprocess.run([folder / "tests" / test], cwd=ROOT).returncode
    folders = unit_folders(test)
    if not folders:
        print(f"test-one: no unit test, path or fuzz target '{test}'{nearest(test)}", file=sys.stderr)
        return 2
    status = 0
    for name, test_filter in folders.items():
        build(folder, f"unit_{name}")
        program = [folder / "tests" / f"unit_{name}", f"--gtest_filter={test_filter}"]
        status = subprocess.run(program, cwd=ROOT).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
