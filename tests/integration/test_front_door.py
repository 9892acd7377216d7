"""docs/from-tritonforge.md, from-slime.md and from-kernelbench.md hold: their commands are run as they stand, with a
small model; their settings are put into a recipe; their names of figures and fields are looked for where they are."""

import json
import re
import shutil

import pytest

import front_door
import test_hub
from engine_process import serving
from front_door import code, place, rows, says_none, tritonforge

hub = test_hub.hub


@pytest.fixture
def without_models(tmp_path):
    """Where a plan is made of the recipe as it is: what is known of its model is its shape."""
    (tmp_path / "recipes").symlink_to(front_door.ROOT / "recipes")
    return tmp_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands run, in the pages' order: what one makes is there for those below it."""
    return place(tmp_path_factory.mktemp("front-door") / "here")


@pytest.fixture(scope="module")
def printed():
    """What commands said, for the tests below them."""
    return {}


def run_recipe(words, folder):
    shutil.rmtree(folder / "runs" / f"{re.search(r'/(.+)[.]yaml', words[1])[1]}-seed1", ignore_errors=True)
    tritonforge(*words, *front_door.small(), cwd=folder)


def serve(words, folder):
    port = words.index("--port") + 1
    with serving(words[1], *words[2:port], "0", *words[port + 1 :], cwd=folder) as server:
        assert server.request("/health")[1]["role"] == words[1]


def bench(words, folder):
    shutil.rmtree(folder / "runs/bench-seed1", ignore_errors=True)
    if "--model" in words:
        words = [*words, "--max-new-tokens", "16"]
    if "http://127.0.0.1:30000" in words:
        with serving("engine", "--model", "models/Qwen3-8B", "--port", "0", cwd=folder) as engine:
            tritonforge(*(engine.url if word == "http://127.0.0.1:30000" else word for word in words), cwd=folder)
    else:
        tritonforge(*words, cwd=folder)


@pytest.mark.parametrize("command", front_door.commands())
def test_a_command_of_the_pages_runs(command, folder, hub, without_models, printed):
    words = front_door.words_of(command)
    if words[0] == "run":
        run_recipe(words, folder)
    elif words[0] == "serve":
        serve(words, folder)
    elif words[0] == "bench":
        bench(words, folder)
    elif words[:2] == ["model", "pull"]:  # from a stand-in of the hub, which has one model
        test_hub.tritonforge(*words[:2], "someone/tiny", hub=hub, home=folder / "hub")
    else:
        printed[command] = tritonforge(*words, cwd=without_models if words[0] == "plan" else folder).stdout


def test_what_the_commands_made_is_what_the_pages_say(folder):
    """After them: the rows of RL are those that a recipe reads, kernels of others got KernelBench's files."""
    (made,) = (folder / "runs/rl-prompts").glob("kernel_bench_triton_*.jsonl")
    row = json.loads(made.read_text().splitlines()[0])
    assert set(row) == set(front_door.prompt_row(1)) and set(row["extra_info"]) == set(
        front_door.prompt_row(1)["extra_info"]
    )
    judged = folder / "runs/theirs/results"
    results = json.loads((judged / "kernelbench/runs/level1/eval_results.json").read_text())
    assert {
        number: [(e["sample_id"], e["compiled"], e["correctness"]) for e in row] for number, row in results.items()
    } == {
        "1": [(0, True, True), (2, True, False)],
        "3": [(0, False, False)],
    }
    figures = json.loads((judged / "figures.json").read_text())
    every = next(row for row in figures["rows"] if row["group"] == "all" and row["answer"] == "best")
    assert (every["samples"], every["failed"], every["correct"]["value"]) == (3, 1, pytest.approx(1 / 3))


# --- Settings ---


def settings_of(cell):
    """[(key, value)] of a cell of the column "recipe"; none where it says so."""
    spans = [] if says_none(cell) else code(cell)
    return [(key, value.strip('"')) for key, _, value in (span.partition("=") for span in spans)]


def batches(wanted):
    """As few as hold each key once, since each is a call of the program."""
    made = []
    for row, settings in wanted:
        keys = {key for key, _ in settings}
        batch = next((b for b in made if not any(key in keys for _, held in b for key, _ in held)), None)
        if batch is None:
            batch = []
            made.append(batch)
        batch.append((row, settings))
    return made


def plan_with(settings, folder):
    words = [word for key, value in settings for word in ("--set", f"{key}={value}")]
    return front_door.call("plan", "recipes/qwen3-8b-rl.yaml", *words, cwd=folder)


@pytest.mark.parametrize("page", front_door.PAGES[:2])
def test_every_setting_of_a_page_is_one(page, without_models):
    wanted = [(row, settings) for row, cell in rows("recipe", [page]) if (settings := settings_of(cell))]
    assert len(wanted) > 15
    for batch in batches(wanted):
        together = plan_with([setting for _, settings in batch for setting in settings], without_models)
        if together.returncode != 0:
            alone = {row: plan_with(settings, without_models).stderr for row, settings in batch}
            raise AssertionError(together.stderr + "\n".join(f"{row}: {said}" for row, said in alone.items() if said))
    wrong = plan_with([("rl.samples_per_promt", "8")], without_models)
    assert wrong.returncode == 2 and "samples_per_prompt" in wrong.stderr


def test_every_argument_of_kernelbench_is_taken(folder):
    found = [argument for _, cell in rows("key=value") for argument in code(cell)]
    assert len(found) > 40
    done = front_door.call("bench", *found, cwd=folder)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("tritonforge: bench: --problems is missing")
    wrong = front_door.call("bench", "levle=1", cwd=folder)
    assert "did you mean 'level'" in wrong.stderr


@pytest.mark.parametrize("page", front_door.PAGES)
def test_what_the_examples_write_out_is_right(page, without_models):
    """Recipes and flags in the text's blocks."""
    for line in re.findall(r"^tritonforge (.+?)(?: +#.*)?$", front_door.text_of(page), re.MULTILINE):
        words = front_door.words_of("tritonforge " + line)
        if words[0] in ("run", "plan"):
            tritonforge("plan", *words[1:], cwd=without_models)
        else:
            assert f"`tritonforge {line}`" in front_door.text_of(page), "it is in no table, so that nobody runs it"


# --- Names ---


def test_every_figure_of_the_pages_is_tracked():
    printed = tritonforge("track", "--names").stdout
    keys = set(re.findall(r"^\| [^|]+ \| `([^`]+)` \|", printed, re.MULTILINE))
    named = {name for _, cell in rows("figure") if not says_none(cell) for name in code(cell)}
    assert len(named) > 20 and named - keys == set()


def test_the_fields_of_results_are_there(folder, printed):
    (verdict,) = (json.loads(text) for words, text in printed.items() if words.startswith("tritonforge evaluate"))
    of_a_gpu = {"eager_runtime", "torch_compile_runtime"}  # of stage timed alone
    assert {name for _, cell in rows("verdict") for name in code(cell)} - set(verdict) <= of_a_gpu
    schema = json.loads((front_door.ROOT / "docs/reference/verdict.json").read_text())
    assert of_a_gpu <= set(schema["$defs"]["Verdict"]["properties"])
    figures = json.loads((folder / "runs/theirs/results/figures.json").read_text())
    assert {name for _, cell in rows("figures.json") for name in code(cell)} - set(figures["rows"][0]) == set()


def test_a_row_without_a_counterpart_says_why():
    """In its own cell or in the one beside it."""
    for page in front_door.PAGES:
        for line in front_door.text_of(page).splitlines():
            if line.startswith("|") and re.search(r"\| none\b", line):
                said = line.partition("| none")[2].strip(":| ")
                assert len(said) > 8, f"{page}: {line}"
