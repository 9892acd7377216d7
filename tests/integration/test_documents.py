"""The documents hold: every command in them runs (or tests/documents.txt says what runs it, or why nothing does), what
they name is there, links lead somewhere, and what is made from the code is what the code makes."""

import importlib.util
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import documents
from documents import ROOT, listed
from test_claims import is_there, said, subcommands

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import schemas  # beside the folders of tests, as ports is
from ports import reserved_port
from schemas import check, schema_of

BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
SCHEMAS = ["verdict", "trajectory", "transcript"]
SERVERS = ["engine", "router", "buffer", "generator", "evaluator", "trainer", "dashboard"]

# Documents whose blocks are files and commands, in the order of the page: each is run whole. What is made smaller, so
# that it takes seconds: a text of the page -> the text in its place.
SESSIONS = {
    "docs/tutorial.md": {
        "--count 200": "--count 8",
        "verify: 10": "verify: 1",
        "steps: 120": "steps: 2",
        "tokens_per_step: 2048": "tokens_per_step: 1024",
        "steps: 8": "steps: 1",
        "prompts_per_step: 6": "prompts_per_step: 2",
        "samples_per_prompt: 6": "samples_per_prompt: 2",
        "samples: 2, turns: [1, 2]": "samples: 1, turns: [1, 2], limit: 2",
        "max_new_tokens: 400": "max_new_tokens: 48",
        "--max-new-tokens 400": "--max-new-tokens 48 --limit 2",
    },
    "docs/how-to/own-reward.md": {},
    "docs/how-to/own-problem-source.md": {},
    "docs/how-to/own-evaluator.md": {"18288": "{port}"},
    "docs/how-to/external-engine.md": {"30981": "{port}", "--max-new-tokens 64": "--max-new-tokens 8"},
    "docs/how-to/own-model-family.md": {},
    "docs/reference/README.md": {},
}


def paths(found=documents.documents):
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in found()]


def environment(folder):
    """The program on the path, as a reader has it."""
    (folder / "bin").mkdir()
    (folder / "bin/tritonforge").symlink_to(BINARY)
    return dict(os.environ, TRITONFORGE_ROOT=str(ROOT), PATH=f"{folder}/bin:{os.environ['PATH']}")


def workplace(folder):
    work = folder / "work"
    work.mkdir()
    for name in ("models", "problems", "recipes", "docs"):
        (work / name).symlink_to(ROOT / name)
    return work


@pytest.mark.parametrize("name", SESSIONS)
def test_a_document_is_a_session(name, tmp_path):
    text, port = (ROOT / name).read_text(), str(reserved_port())
    for there, smaller in SESSIONS[name].items():
        assert there in text, f"{name} no longer has '{there}'"
        text = text.replace(there, smaller.replace("{port}", port))
    work = workplace(tmp_path)
    script = ["set -euo pipefail", "trap 'for job in $(jobs -p); do kill \"$job\"; done; wait || true' EXIT"]
    for language, file, lines in documents.blocks(text):
        if file:
            target = work / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("\n".join(lines) + "\n")
        elif language == "sh":
            script += lines
    ran = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=work,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]
    if name == "docs/tutorial.md":
        check_tutorial(work, ran.stdout)


def check_tutorial(work, printed):
    assert "8 problems: 8 admitted, 0 barred" in printed
    assert re.search(r"^PASS  stage correct", printed, re.M)
    run = work / "runs/gates-seed1"
    rows = json.loads((run / "result.json").read_text())["stages"]
    assert [(row["name"], row["turns"]) for row in rows] == [
        (model, turns) for model in ("base", "sft", "rl") for turns in (1, 2)
    ]
    assert (run / "models/rl/model.safetensors").exists() and (run / "report.html").exists()
    lines = [json.loads(line) for line in (run / "trajectories.jsonl").read_text().splitlines()]
    assert lines, "no trajectory to hold against its schema"
    for trajectory in lines:
        check(trajectory, schema_of("transcript"))
    assert list((run / "tensorboard").iterdir()) and (work / "runs/again/result.json").exists()


# ---- The list of commands (tools/lint.py holds it against the documents) ----


def test_documents_that_are_left_out_have_tests_of_their_own():
    tests = [path.read_text() for path in ROOT.glob("tests/**/test_*.py")]
    for path in ROOT.glob("docs/from-*.md"):
        assert any(path.name in text for text in tests), f"no test names {path.name}"


def test_what_runs_a_command_is_there():
    hows = [(command, how) for entry in listed().values() for command, how in entry.items()]
    assert len(hows) > 30
    whole = "shown by test_documents.py::test_a_document_is_a_session"
    assert {name for name, entry in listed().items() if entry.get("*") == whole} == set(SESSIONS)
    for command, how in hows:
        kind, _, rest = how.partition(" ")
        assert how == "runs" or how.startswith("not run: ") or kind == "shown", f"{command}: {how}"
        if kind == "shown":
            assert is_there(rest.removeprefix("by ")), f"{command}: {how}"


RUNS = [command for entry in listed().values() for command, how in entry.items() if how == "runs"]


@pytest.mark.parametrize("command", RUNS)
def test_command_runs(command, tmp_path):
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=workplace(tmp_path),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]


def test_targets_of_make_are_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for path in documents.documents():
        text = path.read_text()
        for line in [*documents.commands(text), *re.findall(r"`(make [a-z-]+)[^`]*`", text)]:
            if line.startswith("make "):
                named = [word for word in re.split(r" \| | ", line)[1:] if re.fullmatch(r"[a-z][a-z-]+", word)]
                assert set(named) <= targets, f"{path.name}: {line}"


def test_every_call_has_commands_and_flags_that_there_are():
    """Also in the text: `tritonforge COMMAND --flag` of any document."""
    script = said("completion", "bash")
    words = {
        path: set(listed.split()) for path, listed in re.findall(r"^    '([^']*)'\) words='([^']*)'", script, re.M)
    }
    assert len(words) > 25
    wrong, calls = [], 0
    for path in documents.documents():
        for line, call in documents.tritonforge_calls(path.read_text()):
            calls += 1
            at = ""
            for word in call:
                if f"{at} {word}".strip() in words and not word.startswith("-"):
                    at = f"{at} {word}".strip()
                elif re.match(r"--[a-z]", word) and word.split("=")[0] not in words[at] | words[""]:
                    wrong.append(f"{path.name}: {line}: {word}")
            if not at and re.fullmatch(r"[a-z]+", call[0]) and call[0] != "agent":  # programs start that one
                wrong.append(f"{path.name}: {line}: there is no such command")
    assert calls > 80 and not wrong, "\n".join(wrong)


# ---- Links and names ----


@pytest.mark.parametrize("path", paths())
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{path.name}: {target} is not there"
        assert not anchor or anchor in documents.anchors(there.read_text()), (
            f"{path.name}: {target} has no such heading"
        )
    for name in re.findall(r"\bdocs/[a-z\d./-]+\.(?:md|json|ya?ml|sh|png)\b", text):
        assert (ROOT / name).exists(), f"{path.name}: {name} is not there"


@pytest.mark.parametrize("path", paths())
def test_files_and_tests_that_are_named_are_there(path):
    for name in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)):
        if re.fullmatch(r"(src|tests|worker|recipes|problems|tools|requirements)/[\w./*-]+", name):
            pattern = re.sub(r"\b[A-Z]{2,}\b", "*", name.replace("...", "**")).rstrip("/")  # what stands for a name
            assert list(ROOT.glob(pattern)), f"{path.name}: {name} is not there"
        elif re.fullmatch(r"test_\w+\.py::\w+|[A-Z]\w+\.[A-Z]\w+", name):
            assert is_there(name), f"{path.name}: there is no test {name}"


def patches():
    return [
        pytest.param("\n".join(lines) + "\n", id=path.stem)
        for path in documents.documents()
        for language, _, lines in documents.blocks(path.read_text())
        if language == "diff"
    ]


@pytest.mark.parametrize("patch", patches())
def test_a_patch_applies(patch, tmp_path):
    for name in re.findall(r"^--- a/(\S+)", patch, re.M):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    ran = subprocess.run(["git", "apply", "-v", "-"], input=patch, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    changed = re.findall(r"^--- a/(\S+)", patch, re.M)
    assert all((tmp_path / name).read_text() != (ROOT / name).read_text() for name in changed)


# ---- Layout (tools/markdown.py) ----


def markdown():
    """By its path: packages that tests install have a module of that name."""
    spec = importlib.util.spec_from_file_location("lay_out_markdown", ROOT / "tools/markdown.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_paragraph_with_a_wide_line_is_filled_whole():
    laid_out, words = markdown().lay_out, [f"word{i}" for i in range(40)]
    wide = "- " + " ".join(words[:25]) + "\n  " + " ".join(words[25:]) + "\n- fits\n  as it is\n"
    lines = laid_out(wide).splitlines()
    assert [line[:2] for line in lines] == ["- ", "  ", "  ", "- ", "  "] and lines[3:] == ["- fits", "  as it is"]
    assert " ".join(lines[:3]).split() == ["-", *words]
    for line, after in itertools.pairwise(lines[:3]):
        assert len(line) <= 120 < len(line) + 1 + len(after.split()[0])


@pytest.mark.parametrize("token", ["-", "+", "12.", "#", "| a", "> b", "%"])
def test_no_filled_line_begins_with_what_would_be_a_block(token):
    for room in range(100, 122):
        text = f"{'x' * room} 5 {token} {'y ' * 80}"
        assert all(re.match(r"[abxy5]", line) for line in markdown().lay_out(text).splitlines())


def test_tables_code_and_code_in_sentences_stay_as_they_are():
    block = f"| {'a ' * 80}|\n\n    {'b ' * 80}\n\n```\n{'c ' * 80}\n```\n\n# {'d ' * 80}\n"
    assert markdown().lay_out(block, everything=True) == block
    for room in range(90, 122):
        assert "`one two three`" in markdown().lay_out(f"{'x' * room} `one two three` {'y ' * 40}")


@pytest.mark.parametrize("path", paths())
def test_laying_out_loses_no_word_and_a_second_time_changes_nothing(path):
    text, module = path.read_text(), markdown()
    once = module.lay_out(text, everything=True)
    assert once.split() == text.split() and module.lay_out(once, everything=True) == once


# ---- What is made from the code ----


@pytest.mark.parametrize("name", SCHEMAS + SERVERS)
def test_the_reference_is_current(name):
    file = ROOT / f"docs/reference/{name}.json"
    assert file.read_text() == said("schema", name), f"tritonforge schema {name} > docs/reference/{name}.json"


def test_every_server_has_a_document():
    assert sorted(subcommands("serve")) == sorted(SERVERS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name):
    schemas.check_schema(schema_of(name))


@pytest.mark.parametrize("name", SERVERS)
def test_the_bodies_of_servers_are_schemas(name):
    document = schema_of(name)
    assert document["openapi"] == "3.1.0" and document["paths"]["/health"]["get"]["responses"]["200"]
    components = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": document["components"]["schemas"]}
    schemas.check_schema(components)
    text = json.dumps(document)
    for reference in set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text)):
        assert reference in components["$defs"], reference


@pytest.fixture(scope="module")
def verdict():
    return json.loads(
        subprocess.run(
            [
                *(BINARY, "evaluate", "--mode", "interpret", "--trials", "1", "--json"),
                *("--problem", "problems/level1/1_relu.py", "--candidate", "problems/level1/1_relu.py"),
            ],
            cwd=ROOT,
            env=dict(os.environ, TRITONFORGE_ROOT=str(ROOT)),
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    )


def test_a_verdict_fits_its_schema_and_a_wrong_one_does_not(verdict):
    schema = schema_of("verdict")
    check(verdict, schema)
    known = set(schema["$defs"]["Verdict"]["properties"])
    assert set(verdict) <= known, "a field that the schema does not know"
    wrong = [
        {**verdict, "stage": "compield"},
        {**verdict, "correct": "yes"},
        {**verdict, "error_kind": "bad_luck"},
        {**verdict, "speedup": "fast"},
        {**verdict, "flags": [{"name": "input_mutated"}]},
        {name: value for name, value in verdict.items() if name != "compiled"},
    ]
    for each in wrong:
        with pytest.raises(schemas.Unfit):
            check(each, schema)


def test_a_trajectory_without_its_tokens_is_a_transcript_only(verdict):
    turn = {"text": "x", "code": "", "verdict": verdict, "reward": 0.5, "status": "completed"}
    turn |= {"generate_s": 1.0, "evaluate_s": 0.5}
    trajectory = {"id": "a", "problem_id": "p", "group_id": "g", "turns": [turn], "temperature": 1.0, "reward": 0.5}
    trajectory |= {"turn_returns": [0.5], "advantages": [], "carries_loss": [True]}
    check(trajectory, schema_of("transcript"))
    with pytest.raises(schemas.Unfit, match="prompt_tokens"):
        check(trajectory, schema_of("trajectory"))
    turn |= {"prompt_tokens": [1], "response_tokens": [2, 3], "log_probs": [-0.5, -1], "weight_versions": [0, 0]}
    check(trajectory, schema_of("trajectory"))
    with pytest.raises(schemas.Unfit):
        check({**trajectory, "turns": [{**turn, "status": "finished"}]}, schema_of("trajectory"))
