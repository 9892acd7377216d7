"""Applies wrong lines to the parts that decide results, one at a time, and requires a test to fail.

usage: run.py [--part PART ...] [--jobs N] [--list]      (make mutants, make mutants PART=credit)

tests/mutants/PART.txt holds the mutants of one part, each a block:

    # the mean is not subtracted                     what is wrong
    file src/rollout/credit.cpp
    was out[i] = values[i] - mean;                   a fragment of one line, found in the file exactly once
    now out[i] = values[i];                          what takes its place; nothing after `now` removes the fragment
    test unit_rollout GroupAdvantages.*              a unit program and its filter, or
    test tests/adversarial/test_socket.py            a pytest path (`path::case` too), run with the built binary

The work is done in build-mutants/: copies of the sources (never the working tree), each with a build folder of its own.
A mutant is one file's compile, one link and one test, hardly parallel in itself: --jobs mutants are tried at once.
Before the first mutant every named test must pass as it is. A mutant whose fragment is gone, or is there twice, or
that does not compile, is an error: the list must follow the code. Exit 1 where a mutant survives or is in error.
"""

import argparse
import fcntl
import fnmatch
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TREES = ROOT / "build-mutants"
MOST_OUTPUT, TOLD = 1 << 30, 1 << 20  # bytes; a program that is linked is smaller than the first, too
TEST_SECONDS = 300  # a mutant that hangs its test is found out, too


class Fault(Exception):
    """A mutant or a test that cannot be used, in one line."""


@dataclass
class Mutant:
    part: str
    what: str
    file: str
    was: str
    now: str
    program: str  # unit_FOLDER, or a pytest path
    filter: str  # of a unit program

    @property
    def is_unit(self) -> bool:
        return self.program.startswith("unit_")

    @property
    def target(self) -> str:
        return self.program if self.is_unit else "tritonforge"

    @property
    def test(self) -> str:
        return f"{self.program} {self.filter}".strip()

    def mutated(self, source: str) -> str:
        count = source.count(self.was)
        if count != 1:
            raise Fault(f"{self.file}: '{self.was}' is there {count} times, not once")
        return source.replace(self.was, self.now)


def parse(path: Path) -> list[Mutant]:
    mutants = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip()):
        fields = {}
        for line in block.splitlines():
            key, _, value = line.partition(" ")
            if key not in ("#", "file", "was", "now", "test") or key in fields:
                raise Fault(f"{path.name}: '{line}' is no line of a mutant, or its second '{key}'")
            fields[key] = value.strip()
        missing = [key for key in ("#", "file", "was", "now", "test") if key not in fields]
        if missing:
            raise Fault(f"{path.name}: a mutant without {', '.join(missing)}: {block.splitlines()[0]}")
        program, _, test_filter = fields["test"].partition(" ")
        if program.startswith("unit_") and not test_filter:
            raise Fault(f"{path.name}: 'test {program}' names no filter")
        mutants.append(
            Mutant(path.stem, fields["#"], fields["file"], fields["was"], fields["now"], program, test_filter.strip())
        )
    return mutants


def read_mutants(parts: list[str]) -> list[Mutant]:
    known = {path.stem: path for path in sorted(HERE.glob("*.txt"))}
    for part in parts:
        if part not in known:
            raise Fault(f"no part '{part}' (known: {', '.join(known)})")
    return [mutant for name, path in known.items() if not parts or name in parts for mutant in parse(path)]


def unit_tests() -> dict[str, set[str]]:
    """Of each unit program its tests, as the sources name them; of one with parameters the first of each instance."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests" / "unit").rglob("*.cpp"):
        folder = path.relative_to(ROOT / "tests" / "unit").parts[0]
        tests = found.setdefault("unit_" + folder.removesuffix("_test.cpp"), set())
        text = path.read_text(encoding="utf-8")
        instances = re.findall(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text)
        for kind, suite, name in re.findall(r"\bTEST(_F|_P|)\(\s*(\w+)\s*,\s*(\w+)\s*\)", text):
            if kind == "_P":
                tests |= {f"{instance}/{suite}.{name}/0" for instance, of in instances if of == suite}
            else:
                tests.add(f"{suite}.{name}")
    return found


def check_test(mutant: Mutant, known: dict[str, set[str]]) -> None:
    """Throws where the sources have no such test."""
    if mutant.is_unit:
        for pattern in mutant.filter.split(":"):
            if not any(fnmatch.fnmatchcase(name, pattern) for name in known.get(mutant.program, ())):
                raise Fault(f"{mutant.program} has no test {pattern}")
        return
    file, _, case = mutant.program.partition("::")
    if f"def {case.partition('[')[0]}" not in (ROOT / file).read_text(encoding="utf-8"):
        raise Fault(f"{file} has no test {case}")


def python() -> str:
    command = [ROOT / "requirements" / "install", "--python"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Workshop:
    """A copy of the sources with its build folder, in which one mutant at a time is tried."""

    def __init__(self, number: int):
        self.tree = TREES / f"tree{number}"
        self.folder = self.tree / "build"
        self.python = python()
        self.sync()
        status, output = self.run(["cmake", "-S", str(self.tree), "-B", str(self.folder), "-G", "Ninja"])
        if status != 0:
            raise Fault(f"the copy does not configure:\n{output[-3000:]}")

    def sync(self) -> None:
        """The tree becomes what the working tree holds now; equal files keep their time, so little is built anew."""
        self.tree.mkdir(parents=True, exist_ok=True)
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
        wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
        for name in wanted:
            source, target = ROOT / name, self.tree / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            os.utime(target)
        for folder, folders, files in os.walk(self.tree):
            folders[:] = [f for f in folders if Path(folder, f) != self.folder and f != "__pycache__"]
            for name in files:
                path = Path(folder, name)
                if str(path.relative_to(self.tree)) not in wanted:
                    path.unlink()

    def run(self, command: list[str], seconds: float = 3600) -> tuple[int | None, str]:
        """Exit status (None where the time was up) and the end of the output, of which a mutant that goes on for ever
        writes no more than MOST_OUTPUT. The whole process group ends with the command."""
        environment = dict(
            os.environ,
            TRITONFORGE_BINARY=str(self.folder / "tritonforge"),
            TRITONFORGE_ROOT=str(self.tree),
            PYTHONDONTWRITEBYTECODE="1",
        )
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=self.tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_OUTPUT, MOST_OUTPUT))
            try:
                status = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
            output.seek(-min(TOLD, output.seek(0, os.SEEK_END)), os.SEEK_END)
            return status, output.read().decode(errors="replace")

    def build(self, target: str) -> tuple[bool, str]:
        jobs = os.environ.get("JOBS", str(os.cpu_count()))
        status, output = self.run(["cmake", "--build", str(self.folder), "-j", jobs, "--target", target])
        return status == 0, output

    def test(self, mutant: Mutant) -> tuple[int | None, str]:
        if mutant.is_unit:
            program = str(self.folder / "tests" / mutant.program)
            command = [program, f"--gtest_filter={mutant.filter}", "--gtest_brief=1", "--gtest_fail_fast"]
        else:
            command = [self.python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.program]
        return self.run(command, TEST_SECONDS)

    def check_baseline(self, mutants: list[Mutant], tests: list[Mutant]) -> None:
        """Unmutated, every target builds; of `tests` every filter matches, each passes and none is skipped."""
        for target in dict.fromkeys(m.target for m in mutants):
            ok, output = self.build(target)
            if not ok:
                raise Fault(f"{target} does not build as it is:\n{output[-3000:]}")
        for mutant in tests:
            status, output = self.test(mutant)
            if status != 0:
                raise Fault(f"{mutant.test} fails as it is:\n{output[-3000:]}")
            if mutant.is_unit and not re.search(r"\[  PASSED  \] [1-9]", output):
                raise Fault(f"{mutant.test} runs no test")
            if "[  SKIPPED ]" in output or re.search(r"\d+ skipped", output):
                raise Fault(f"{mutant.test} is skipped on this machine")

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """killed | survived | error, and how."""
        path = self.tree / mutant.file
        original = path.read_text(encoding="utf-8")
        try:
            path.write_text(mutant.mutated(original), encoding="utf-8")
            ok, output = self.build(mutant.target)
            if not ok:
                errors = [line for line in output.splitlines() if "error" in line.lower()]
                return "error", "does not compile: " + (errors or output.splitlines())[0][:200]
            status, output = self.test(mutant)
            if status is None:
                return "killed", f"{mutant.test}: no end in {TEST_SECONDS} s"
            return ("survived" if status == 0 else "killed"), mutant.test
        except Fault as fault:
            return "error", str(fault)
        finally:
            path.write_text(original, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", default=[], help="only the mutants of PART.txt")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once, each in a copy of its own")
    parser.add_argument("--list", action="store_true", help="check lines and tests against the sources; build nothing")
    arguments = parser.parse_args()
    mutants = read_mutants(arguments.part)
    counts = {"killed": 0, "survived": 0, "error": 0}
    if arguments.list:
        wrong, known = 0, unit_tests()
        for mutant in mutants:
            try:
                mutant.mutated((ROOT / mutant.file).read_text(encoding="utf-8"))
                check_test(mutant, known)
            except (Fault, OSError) as error:
                wrong += 1
                print(f"error    {mutant.part}: {mutant.what}: {error}")
        print(f"mutants: {len(mutants)} in {len({m.part for m in mutants})} parts, {wrong} without their line or test")
        return 1 if wrong else 0
    TREES.mkdir(parents=True, exist_ok=True)
    lock = open(TREES / "lock", "w")  # noqa: SIM115  held until the end of the process
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Fault(f"another run works in {TREES}") from None
    tests = list({m.test: m for m in mutants}.values())
    free: queue.SimpleQueue[Workshop] = queue.SimpleQueue()

    def judge(mutant: Mutant) -> tuple[Mutant, str, str, float]:
        shop = free.get()
        started = time.monotonic()
        outcome, how = shop.judge(mutant)
        free.put(shop)
        return mutant, outcome, how, time.monotonic() - started

    with ThreadPoolExecutor(arguments.jobs) as pool:
        shops = list(pool.map(Workshop, range(arguments.jobs)))
        list(pool.map(lambda shop, number: shop.check_baseline(mutants, tests[number :: len(shops)]), shops, count()))
        for shop in shops:
            free.put(shop)
        for number, (mutant, outcome, how, seconds) in enumerate(pool.map(judge, mutants), 1):
            counts[outcome] += 1
            done = f"{outcome:8} {number}/{len(mutants)} {mutant.part}: {mutant.what}"
            print(f"{done} ({how}; {seconds:.0f} s)", flush=True)
    print(f"mutants: {counts['killed']} killed, {counts['survived']} survived, {counts['error']} in error")
    return 0 if counts["killed"] == len(mutants) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fault as fault:
        print(f"mutants: {fault}", file=sys.stderr)
        sys.exit(1)
