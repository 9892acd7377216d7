"""What each view says, against what is in the run folders."""

import json
import pathlib
import shutil
import subprocess
import time

import pytest
from axe_playwright_python.sync_playwright import Axe

import made_runs
from conftest import BINARY

ROOT = pathlib.Path(__file__).resolve().parents[3]
VIEWS = ["overview", "curves", "timeline", "trajectories", "problems", "flags", "about"]
PLACES = [f"/{view}?run=first" for view in VIEWS]
PLACES += ["/runs", "/compare?runs=first,second", "/trajectories?run=first&index=0", "/overview?run=killed"]


def text(page, selector="#content"):
    return " ".join(page.inner_text(selector).split())


def until(page, condition, patience_s=100):
    """The page's policy lets nobody evaluate a text in it, so that wait_for_function cannot poll there."""
    end = time.monotonic() + patience_s
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def lines(folder, name):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_the_index_finds_runs_and_says_which_are_dead(visit):
    page = visit("/runs")
    assert page.locator("tbody tr").count() == 4
    rows = {row.split("\t")[1]: row for row in page.locator("tbody tr").all_inner_texts()}
    assert "running" in rows["first"] and "dead" in rows["killed"] and "finished" in rows["second"]
    assert "79.0 %" in rows["first"] and "72.8 – 84.1 %" in rows["first"]
    page.fill("#search", "dead")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('tbody tr').length === 1")
    assert "killed" in text(page)
    page.fill("#search", "sec")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('tbody tr').length === 1")
    page.click("text=second")
    page.wait_for_selector("text=Results")
    assert text(page, "h1") == "second" and text(page, "#stage") == "finished"


def test_the_index_says_where_and_why_a_run_ended(visit, update_status):
    update_status("second", state="stopped", stage="rl", reason="Interrupt", progress={"done": 3, "total": 8})
    row = visit("/runs").locator("tbody tr", has_text="second")
    assert "rl 3 of 8: Interrupt" in row.inner_text()


def test_chosen_runs_are_compared(visit):
    page = visit("/runs")
    for name in ("first", "second"):
        page.check(f'input[aria-label="compare {name}"]')
    page.click("text=compare 2 of them")
    page.wait_for_selector("text=Recipe keys that differ")
    assert "rl.sampling.temperature 1 0.7" in text(page) and "rl.steps" not in text(page)
    chart = page.locator(".chart", has_text="reward_mean").first
    assert chart.locator("path.series").count() == 2
    assert "first" in chart.inner_text() and "second" in chart.inner_text()


def test_a_dead_run_says_so_and_shows_no_load(visit):
    page = visit("/overview?run=killed")
    assert text(page, "#stage").startswith("dead: no sign of life since") and "--resume" in text(page, "#stage")
    assert page.is_hidden("#progress") and page.is_hidden("#live")
    assert set(page.locator(".role .state").all_inner_texts()) == {"unknown"}
    assert "running," not in text(page)


def test_a_clock_that_is_wrong_here_makes_no_run_dead(visit):
    """The run wrote its status an hour from now; this machine's clock goes two hours ahead of the dashboard's."""
    page = visit("/runs")
    page.add_init_script("const right = Date.now; Date.now = () => right() + 2 * 3600e3;")
    page.reload()
    states = page.locator("tbody tr", has_text="first").locator(".badge")
    states.wait_for()
    assert states.inner_text() == "running"
    assert page.locator("tbody tr", has_text="killed").locator(".badge").inner_text() == "dead"


def test_roles_are_the_diagram_with_their_load(visit, update_status):
    page = visit("/overview?run=first")
    card = {
        name: text(page, f'[data-role="{name}"]') for name in ("engine-0", "engine-1", "evaluator", "buffer", "trainer")
    }
    assert "green" in card["engine-0"] and "version 60" in card["engine-0"] and "66.0 %" in card["engine-0"]
    assert "version 59" in card["engine-1"] and "13 running, 3 waiting" in card["engine-1"]
    assert "yellow" in card["evaluator"] and "4 of 4 busy" in card["evaluator"] and "14 waiting" in card["evaluator"]
    assert "8 under way, 24 to begin" in card["buffer"]
    assert "red" in card["trainer"] and "checkpoint 58" in card["trainer"]
    assert "83.0 %" in text(page, ".gpus") and "61.2 of 79.6 GiB" in text(page, ".gpus")
    # buffer-router, two engines, buffer-evaluator, buffer-trainer; and the weights, which nobody waits for
    page.locator(".wire").first.wait_for(state="attached")  # drawn once the cards have their places
    assert page.locator(".wire:not(.dotted)").count() == 5 and page.locator(".wire.dotted").count() == 2
    roles = made_runs.roles()
    roles[0]["figures"]["weight_version"] = 61
    update_status("first", roles=roles, progress={"done": 61, "total": 120})
    page.wait_for_selector("text=version 61")
    assert text(page, "#progress-text").startswith("61 of 120, 5:12 left in this stage, in all 6:40")


def test_every_figure_of_every_step_is_charted(visit, runs):
    page = visit("/curves?run=first")
    steps = lines(runs / "first", "steps.jsonl")
    for stage, title in (("rl", "RL"), ("sft", "SFT")):
        figures = {key for step in steps if step["stage"] == stage for key in step} - {"stage", "step", "time"}
        part = page.locator("section", has=page.locator(f"h2:text-is('{title}')"))
        assert part.locator(".chart-frame").count() == len(figures)
    loss = page.locator(".chart", has=page.locator("h3 > span:text-is('reward_mean')"))
    wanted = [step["reward_mean"] for step in steps if step["stage"] == "rl"]
    assert loss.locator("h3 b").inner_text() == f"{wanted[-1]:.3g}"
    loss.locator("svg").focus()
    page.keyboard.press("Home")
    assert loss.locator(".at").inner_text() == "step 1" and loss.locator("h3 b").inner_text() == f"{wanted[0]:.3g}"
    page.fill('input[placeholder^="part of a name"]', "kl")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.chart-frame').length === 1")


def test_the_timeline_says_what_waited_for_whom(visit, runs):
    page = visit("/timeline?run=first")
    steps = [step for step in lines(runs / "first", "steps.jsonl") if step["stage"] == "rl"]
    share = sum(step["collect_s"] for step in steps) / sum(step["seconds"] for step in steps)
    assert f"({100 * share:.1f} %)" in text(page, ".facts-list")
    rows = page.locator("table").first.locator("tbody tr").all_inner_texts()
    shares = [float(row.split("\t")[2].removesuffix(" %")) for row in rows]
    assert abs(sum(shares) - 100) < 0.3 and len(rows) >= 9


def test_trajectories_are_filtered_and_turns_stand_side_by_side(visit, runs):
    page = visit("/trajectories?run=first&outcome=correct&turns=2&flag=trivial_reference")
    all_of_it = lines(runs / "first", "trajectories.jsonl")
    wanted = [t for t in all_of_it if len(t["turns"]) == 2 and t["turns"][1]["verdict"]["correct"]]
    assert f"1 to {min(50, len(wanted))} of {len(wanted)}" in text(page, ".pager")
    page.click("a.row >> nth=0")
    page.wait_for_selector(".pair")
    assert wanted[-1]["id"] in text(page, "article")
    removed, added = page.locator(".line.removed").all_inner_texts(), page.locator(".line.added").all_inner_texts()
    assert [line.strip() for line in removed] == ["-     tl.store(out_ptr + i, tl.abs(x), i < n)"]
    assert [line.strip() for line in added] == ["+     tl.store(out_ptr + i, tl.maximum(x, 0.0), i < n)"]
    left, right = page.locator(".turn").all_inner_texts()
    assert "what the model was told" in left and "It is wrong at [3, 17]." in left
    assert "profile" in right and "75.0 %" in right and "correct, 1.3×" in right
    page.click("text=the problem: its PyTorch module")
    assert "torch.relu(x)" in text(page, "article")
    page.keyboard.press("j")
    until(page, f"document.querySelector('article').innerText.includes('{wanted[-2]['id']}')")


def test_problems_by_pass_rate_over_time(visit, runs):
    page = visit("/problems?run=first")
    mine = [t for t in lines(runs / "first", "trajectories.jsonl") if t["problem_id"] == made_runs.PROBLEMS[0]]
    solved = [t for t in mine if any(one["verdict"]["correct"] and not one["verdict"]["cheated"] for one in t["turns"])]
    row = page.locator("tr", has_text=made_runs.PROBLEMS[0])
    assert f"{100 * len(solved) / len(mine):.1f} %\t{len(mine)}" in row.inner_text()
    assert row.locator(".strip-bar").count() > 10
    shares = [float(r.split("\t")[1].split()[0]) for r in page.locator("tbody tr").all_inner_texts()]
    assert shares == sorted(shares) and len(shares) == len(made_runs.PROBLEMS)


def test_flags_and_cheats_lead_to_their_trajectories(visit, runs):
    page = visit("/flags?run=first")
    cheats = [t for t in lines(runs / "first", "trajectories.jsonl") if t["turns"][0]["verdict"]["cheated"]]
    row = page.locator("tbody tr").first
    assert row.inner_text().split("\t")[:3] == ["no_kernel_launched", "cheat", str(len(cheats))]
    page.click("text=no_kernel_launched")
    page.wait_for_selector("a.row")
    assert f"of {len(cheats)}" in text(page, ".pager")


def test_a_thousand_steps_and_a_hundred_thousand_trajectories(visit):
    page = visit("/trajectories?run=long")
    answer = "fetch('api/trajectories?run=long&limit=1').then((reply) => reply.json())"
    until(page, f"{answer}.then((list) => list.bytes === list.indexed_bytes)")
    page.reload()
    page.wait_for_selector("a.row")
    assert "100,000 in all" in text(page) and page.locator("a.row").count() == 50
    assert "1 to 50 of 100,000" in text(page, ".pager")
    page.click("text=after →")
    page.wait_for_selector("text=51 to 100 of 100,000")
    page.goto(page.url.split("#")[0] + "#/curves?run=long")
    page.wait_for_selector(".chart path.series")
    # The others when they are scrolled to. In one look: between two the page may be drawn anew.
    drawn, frames = (f"document.querySelectorAll('{what}').length" for what in (".chart", ".chart-frame"))
    until(page, f"0 < {drawn} && {drawn} < {frames}")
    page.goto(page.url.split("#")[0] + "#/timeline?run=long")
    page.wait_for_selector("text=a bar is the mean of 9 steps")


def test_a_step_that_is_written_is_drawn(visit, runs):
    page = visit("/overview?run=second")
    chart = page.locator(".chart", has=page.locator("h3 > span:text-is('reward_mean')"))
    chart.wait_for()
    with open(runs / "second/steps.jsonl", "a") as file:
        file.write(json.dumps({"stage": "rl", "step": 61, "time": 1, "seconds": 1, "reward_mean": 0.875}) + "\n")
    until(page, "[...document.querySelectorAll('.chart h3 b')].some((one) => one.textContent === '0.875')")


def test_a_step_that_comes_while_the_curves_are_on_their_way_is_drawn(visit, runs):
    page = visit("/runs")
    answered = []

    def answer(route, _):
        reply = route.fetch()
        answered.append(0.25 + len(answered) / 8)
        step = {"stage": "rl", "step": 61 + len(answered), "time": 1, "seconds": 1, "reward_mean": answered[-1]}
        with open(runs / "second/steps.jsonl", "a") as file:
            file.write(json.dumps(step) + "\n")
        while step["step"] not in route.fetch().json()["rl"]["step"]:
            pass  # then the server has told every page of it
        route.fulfill(response=reply)

    page.route(lambda url: "api/curves" in url and "run=second" in url, answer)
    page.evaluate("location.hash = '#/overview?run=second'")
    page.locator(".chart").first.wait_for()
    until(page, "document.querySelector('#live').textContent === 'live'")
    page.evaluate("fetch('api/status?run=second').then((reply) => reply.json())")  # behind what the page asked for
    until(page, f"state.curves.rl.step.at(-1) === {61 + len(answered)}")
    until(page, f"[...document.querySelectorAll('.chart h3 b')].some((one) => one.textContent === '{answered[-1]}')")


def test_a_run_that_was_left_while_it_was_loaded_stays_left(visit):
    page = visit("/overview?run=first")
    held, streams = [], []
    page.route(lambda url: "api/curves" in url and "run=killed" in url, lambda route, _: held.append(route))
    page.on("request", lambda request: streams.append(request.url) if "api/events" in request.url else None)
    page.evaluate("location.hash = '#/overview?run=killed'")
    while not held:
        page.wait_for_timeout(20)
    page.evaluate("location.hash = '#/overview?run=second'")
    until(page, "document.querySelector('h1').textContent === 'second'")
    with page.expect_response(lambda response: "run=killed" in response.url):
        held[0].continue_()
    page.evaluate("location.hash = '#/about?run=second'")
    page.wait_for_selector("text=recipe")
    assert text(page, "h1") == "second" and all("run=second" in url for url in streams)


def test_a_trajectory_that_is_written_is_listed(visit, runs):
    page = visit("/trajectories?run=second")
    row = page.locator(".rows a.row")
    row.first.wait_for()
    line = lines(runs / "second", "trajectories.jsonl")[-1] | {"id": "the-newest"}
    count = int(text(page, ".pager").split(" of ")[1].split()[0].replace(",", ""))
    with open(runs / "second/trajectories.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    page.wait_for_selector(f"text=of {count + 1}")


def test_a_string_that_is_not_closed_is_coloured_to_its_line_s_end(visit):
    page = visit("/overview?run=second")
    parts = page.evaluate(r"""() => coloured('"' + '\\"'.repeat(200000) + '\nx').map((one) =>
        [one.className || '', (one.textContent ?? one).length])""")
    assert parts == [["string", 400001], ["", 2]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible_and_not_wider_than_the_window(visit, width, scheme):
    page = visit("/runs", width=width, scheme=scheme)
    for place in PLACES if (width, scheme) != (390, "dark") else PLACES[:1]:
        page.goto(page.url.split("#")[0] + "#" + place)
        until(page, "document.querySelectorAll('#content > *').length > 0")
        page.wait_for_load_state("networkidle")
        found = Axe().run(page).response["violations"]
        assert [(one["id"], [n["html"][:200] for n in one["nodes"]]) for one in found] == [], place
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, place


def test_a_benchs_report_is_as_wide_as_a_phone_whatever_its_words(browser, tmp_path):
    model = tmp_path / ("a_name_without_a_place_to_break_it_" * 5)
    shutil.copytree(ROOT / "models/tiny-base", model)
    command = [BINARY, "bench", "--model", model, "--problems", ROOT / "problems", "--limit", "1"]
    command += ["--prompt", "minimal", "--max-new-tokens", "8", "--output", tmp_path / "run"]
    subprocess.run(command, check=True, capture_output=True)
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto((tmp_path / "run/bench-base/report.html").as_uri())
    assert model.name in text(page, "body")
    tables = page.locator(".scroll").evaluate_all("all => all.map(one => one.scrollWidth > one.clientWidth)")
    assert any(tables), "a table that is wider than its frame scrolls in it"
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.close()


@pytest.mark.parametrize("view", ["timeline", "flags"])
def test_bars_are_seen_whole_on_a_phone_and_can_be_read(visit, view):
    page = visit(f"/{view}?run=long", width=400)
    page.wait_for_selector(".bars rect")
    rect = page.locator(".bars").first.bounding_box()
    assert rect["x"] >= 0 and rect["x"] + rect["width"] <= 400, rect
    assert page.locator(".bars .tick").first.bounding_box()["height"] >= 9


def test_the_theme_and_the_views_by_keyboard(visit):
    page = visit("/overview?run=first")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.focus("#theme")
    for _ in range(2):
        page.keyboard.press("Enter")
    assert text(page, "#theme") == "theme: dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.keyboard.press("5")
    page.wait_for_selector("text=in all")
    page.wait_for_selector("#search")
    page.keyboard.press("/")
    until(page, "document.activeElement.id === 'search'")


def test_the_keys_that_are_named_are_the_views_there(visit, dashboard_of_one):
    for page, count in (visit("/overview?run=first"), 8), (visit("", url=dashboard_of_one), 7):
        page.wait_for_selector("#views [aria-current]")
        assert text(page, "#keys").startswith(f"keys: 1 to {count} views")
        page.keyboard.press(str(count))
        until(page, "document.querySelector('#views [aria-current]').textContent === 'About'")


def test_a_reason_of_many_lines_stays_inside_its_frame(visit, update_status):
    update_status("second", state="failed", reason="trainer: POST /step: 409 " + "http://127.0.0.1:27588/v2/" * 12)
    page = visit("/overview?run=second", width=390)
    until(page, "document.getElementById('stage').textContent.startsWith('failed')")
    height, radius = page.evaluate("""() => {
        const style = getComputedStyle(document.getElementById('stage'));
        return [document.getElementById('stage').clientHeight, parseFloat(style.borderTopLeftRadius)];
    }""")
    assert height > 60 and radius <= 12, "round ends of a frame that high would cut through the text"
    update_status("second", state="finished", reason="")


def test_a_report_is_the_page_without_the_run(visit, runs, tmp_path):
    file = tmp_path / "report.html"
    subprocess.run([BINARY, "report", runs / "first", "--output", file], check=True, capture_output=True)
    moved = tmp_path / "elsewhere.html"
    file.rename(moved)
    page = visit("/overview", url=f"file://{moved}")
    assert text(page, "h1") == "first" and "SFT+RL" in text(page)
    page.click("text=Trajectories")
    page.wait_for_selector("a.row")
    page.click("a.row >> nth=0")
    page.wait_for_selector("article .turn pre")
    for view, said in (("Problems", made_runs.PROBLEMS[1]), ("Flags", "no_kernel_launched"), ("About", "temperature")):
        page.click(f"nav >> text={view}")
        until(page, f"document.querySelector('#content').innerText.includes('{said}')")


def test_a_page_behind_a_key_opens_for_who_signs_in(browser, keyed_dashboard):
    def opened(password):
        page = browser.new_page(http_credentials={"username": "anybody", "password": password})
        return page, page.goto(f"{keyed_dashboard}#/overview?run=first")

    page, answer = opened("open-sesam")
    assert answer.status == 401 and page.locator("#content").count() == 0
    page.close()
    page, answer = opened("open-sesame")
    assert answer.status == 200
    page.wait_for_selector("#content > *")
    until(page, "document.querySelector('#live').textContent === 'live'")  # data and events, too, are behind the key
    assert page.evaluate("fetch('api/runs', {method: 'POST'}).then((reply) => reply.status)") == 401
    page.close()
