"""What a shell offers after the words typed so far, by the completion that the program prints of itself; and that
man(1)'s formatter takes the manual without a complaint. A shell that is not here is skipped. And which commands load
libtorch."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))


def said(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", [["schema", "engine"], ["model", "list"]], ids=" ".join)  # long and short
def test_what_a_full_disk_does_not_take_is_no_success(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE, text=True)
    line = "tritonforge: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


def loads(*arguments):
    """The libraries that a command opened, as the dynamic loader tells them."""
    done = subprocess.run([BINARY, *arguments], env=dict(os.environ, LD_DEBUG="files"), capture_output=True, text=True)
    return set(re.findall(r"calling init: \S+/(\S+?)\.so", done.stderr))


def test_what_does_not_compute_loads_no_libtorch():
    roles = ["router", "evaluator", "dashboard", "buffer", "generator"]
    for words in [["--version"], ["report", "--help"], *(["serve", role, "--help"] for role in roles)]:
        loaded = loads(*words)
        assert "libspdlog" in loaded and not {"libtritonforge_torch", "libtorch_cpu"} & loaded, words
    for words in [["--help"], ["serve", "engine", "--help"], ["score", "--help"]]:
        assert {"libtritonforge_torch", "libtorch_cpu"} <= loads(*words), words


def test_a_program_without_its_library_says_so(tmp_path):
    program = shutil.copy(BINARY, tmp_path)
    assert subprocess.run([program, "report", "--help"], capture_output=True).returncode == 0
    done = subprocess.run([program, "score", "--help"], capture_output=True, text=True)
    start = "tritonforge: what computes with libtorch cannot be loaded: "
    assert done.returncode == 3 and done.stderr.startswith(start) and str(tmp_path) in done.stderr, done
    assert done.stderr.count("\n") == 1, done.stderr


def bash_offers(script, *words):
    line = " ".join(f"'{word}'" for word in ("tritonforge", *words))
    ask = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _tritonforge; "
    ask += "printf '%s\\n' \"${COMPREPLY[@]}\""
    return set(subprocess.run(["bash", "-uc", ask], capture_output=True, text=True, check=True).stdout.split())


def test_bash_offers_commands_flags_and_values(tmp_path):
    script = tmp_path / "tritonforge.bash"
    script.write_text(said("completion", "bash"))
    assert {"run", "serve", "doctor", "model"} <= bash_offers(script, "")
    assert "agent" not in bash_offers(script, "")
    assert bash_offers(script, "serve", "ro") == {"router"}
    assert bash_offers(script, "serve", "router", "--pol") == {"--policy"}
    assert {"round_robin", "cache_aware"} <= bash_offers(script, "serve", "router", "--policy", "")
    assert bash_offers(script, "model", "pull", "name", "--rev") == {"--revision"}
    assert bash_offers(script, "run", "--output", "") == set()  # names of files, by bash itself
    assert bash_offers(script, "run", "quick") == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_theirs(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed here")
    script = tmp_path / f"completion.{shell}"
    script.write_text(said("completion", shell))
    subprocess.run([shell, "-n", script], check=True)
    if shell == "fish":
        ask = f"source {script}; complete -C 'tritonforge serve router --policy r'"
        offered = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, check=True).stdout
        assert "round_robin" in offered.split()


def test_man_takes_the_manual(tmp_path):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed here")
    page = tmp_path / "tritonforge.1"
    page.write_text(said("manual"))
    result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    shown = re.sub("\x1b\\[[0-9]*m|.\x08", "", result.stdout)  # bold: escapes, or letters struck twice
    for words in ("tritonforge serve router", "least_loaded", "EXIT STATUS", "tritonforge model pull"):
        assert words in shown, words
    variables = shown.split("ENVIRONMENT")[1]
    assert "TRITONFORGE_PEER_API_KEY" in variables and "TRITONFORGE_IR_RUN" not in variables


def warnings_of(variables):
    done = subprocess.run(
        [BINARY, "manual"], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return [line.split("] ", 1)[1] for line in done.stderr.splitlines()]


def test_a_misspelt_variable_is_told():
    assert warnings_of({"TRITONFORGE_PER_API_KEY": "x", "TRITONFORGE_LOG": "warn"}) == [
        "the environment has TRITONFORGE_PER_API_KEY, which nothing reads (did you mean 'TRITONFORGE_PEER_API_KEY'?)"
    ]
    (line,) = warnings_of({"TRITONFORGE_XQZWVJKYXQ": "1", "TRITONFORGE_LOG": "warn"})
    assert line.endswith("TRITONFORGE_XQZWVJKYXQ, which nothing reads; `tritonforge manual` lists those that are read")


def test_no_variable_is_told_that_something_reads():
    read = set()
    for folder, form in (
        ("src", r'"(TRITONFORGE_[A-Z_]+)"'),
        ("worker", r'"(TRITONFORGE_[A-Z_]+)"'),
        ("tests", r'environ(?:\.get\(|\[)"(TRITONFORGE_[A-Z_]+)"'),
        ("bench", r"\$\{?(TRITONFORGE_[A-Z_]+)"),
        ("docs/clusters", r"\$\{?(TRITONFORGE_[A-Z_]+)"),
    ):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and file.suffix in ("", ".cpp", ".h", ".py", ".sh"):
                read.update(re.findall(form, file.read_text(errors="replace")))
    assert {"TRITONFORGE_LOG", "TRITONFORGE_WORKER_DEBUG", "TRITONFORGE_IR_RUN", "TRITONFORGE_OUTPUT"} <= read
    assert warnings_of(dict.fromkeys(read, "warn")) == []
