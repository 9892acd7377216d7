"""`tritonforge run` as a whole, on a small plan: it ends with a table and result.json; roles killed with -9 at bad
moments and a run stopped in any stage and resumed give bit for bit the weights of the undisturbed run."""

import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

import engine_process
from machines import flags
from runs import BINARY, ROOT, STEPS, HeldDisk, Run


def same_as(run, undisturbed):
    assert run.weights() == undisturbed.weights()
    assert run.ledger() == undisturbed.ledger()
    assert run.table() == undisturbed.table()
    assert [step["step"] for step in run.steps("rl")] == list(range(1, STEPS + 1))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("undisturbed") / "a")
    run.said = run.finish()
    return run


def test_ends_with_a_table_and_a_result(undisturbed):
    assert [step.get("ahead", False) for step in undisturbed.steps("sft")] == [False, True, True]
    assert [step["sequences"] for step in undisturbed.steps("sft")] == [2, 2, 2]  # by tokens alone the last had three
    result = json.loads((undisturbed.output / "result.json").read_text())
    assert [(row["name"], row["turns"]) for row in result["stages"]] == [
        (name, turns) for name in ("base", "sft", "rl") for turns in (1, 2)
    ]
    for row in result["stages"]:
        assert row["samples"] == 2 and 0 <= row["ci95"][0] <= row["pass_at_1"] <= row["ci95"][1] <= 1, row
    assert result["wall_s"].keys() >= {"data", "sft", "rl", "bench"} and result["seed"] == 1
    assert "sft done in 0:" in undisturbed.said and "; next: bench-sft, rl, bench-rl" in undisturbed.said
    assert "SFT+RL" in undisturbed.said and undisturbed.status()["state"] == "finished"
    rl = undisturbed.steps("rl")
    assert [step["step"] for step in rl] == list(range(1, STEPS + 1))
    assert all(step["trajectories"] == 6 for step in rl)
    assert all(step["train_rollout_logprob_abs_diff"] == 0 for step in rl), rl  # to the bit
    shares = [step[f"idle_{group}"] for step in rl for group in ("actor", "rollout", "eval")]
    assert all(0 <= share <= 1 for share in shares) and 0 < sum(shares) < len(shares), shares
    assert undisturbed.weights("sft") != undisturbed.weights("rl")
    measured = {}  # each model under a version of its own: RL's steps have 1 to 1 + STEPS
    for trajectory, turns in undisturbed.ledger()[1].items():
        if trajectory.startswith("bench-"):
            measured.setdefault(trajectory.split("-")[1], set()).update(version for turn in turns for version in turn)
    assert measured == {"base": {0}, "sft": {1}, "rl": {2 + STEPS}}
    page = undisturbed.output / "report.html"
    subprocess.run([BINARY, "report", str(undisturbed.output), "--output", str(page)], check=True, capture_output=True)
    assert "SFT" in page.read_text()


def test_resume_of_a_finished_run_starts_nothing(undisturbed):
    logs = {log: log.stat().st_size for log in (undisturbed.output / "logs").iterdir()}
    before = (undisturbed.output / "result.json").read_bytes()
    said = Run(undisturbed.output.parent, "--resume").finish()
    assert "this run is finished" in said and "SFT+RL" in said and str(undisturbed.output / "result.json") in said
    assert {log: log.stat().st_size for log in (undisturbed.output / "logs").iterdir()} == logs
    shown = Run(undisturbed.output.parent, "--resume", "--json").finish()
    assert json.loads(shown[shown.index("{") :]) == json.loads(before)  # behind what is logged
    assert (undisturbed.output / "result.json").read_bytes() == before


def test_a_finished_run_goes_on_for_more_steps_to_the_same(undisturbed, tmp_path):
    """What was measured behind them is measured again, as if it had been begun with so many."""
    steps = ["--set", "rl.steps=2"]
    Run(tmp_path / "a", "--set", "stages=[sft, rl, bench]", *steps).finish()
    run = Run(tmp_path / "a", "--resume", "--set", "stages=[sft, rl, bench]", "--set", f"rl.steps={STEPS}")
    run.finish()
    assert run.weights() == undisturbed.weights()
    assert [step["step"] for step in run.steps("rl")] == list(range(1, STEPS + 1))
    assert run.table() == undisturbed.table()
    measured = [turns for trajectory, turns in run.ledger()[1].items() if trajectory.startswith("bench-rl-")]
    assert {version for turns in measured for turn in turns for version in turn} == {2 + 2, 2 + STEPS}
    said = Run(tmp_path / "a", "--resume", "--set", "stages=[sft, rl, bench]", *steps).finish(code=2)
    assert f"(rl.steps: now 2, and it has trained {STEPS})" in said.splitlines()[-1]
    said = Run(tmp_path / "a", "--resume", "--set", "stages=[sft, rl, bench]", "--set", "sft.steps=9").finish(code=2)
    assert (
        "(sft.steps: 3, now 9: a cosine falls over all of them)" in said.splitlines()[-1]
        and "in another folder (--output)" in said
    )


def test_resume_of_a_run_that_is_not_there_starts_none(undisturbed):
    wrong = Run(undisturbed.output.parent, "--resume", output="rum")
    assert f"there is no run in {wrong.output} (did you mean 'run'?)" in wrong.finish(code=2)
    assert not wrong.output.exists()


def test_a_second_ctrl_c_ends_the_graces(tmp_path):
    run = Run(tmp_path / "a", "--set", "stages=[sft]", "--set", "sft.steps=3000")
    run.wait_for(lambda: len(run.steps("sft")) >= 3, "a checkpoint, and a step after it")
    run.wait_for(lambda: any(role["name"] == "trainer" for role in run.status()["roles"]), "the trainer's process")
    os.kill(run.pid_of("trainer"), signal.SIGSTOP)  # it would be waited for as long as saving may take
    run.process.send_signal(signal.SIGTERM)
    run.wait_for_line("stopping: the turns under way end")
    run.process.send_signal(signal.SIGINT)
    said, _ = run.process.communicate(timeout=120)
    assert "ending every role at once" in said
    assert run.process.returncode == 143, said[-2000:]  # the first signal is the one that ended it


def test_runs_that_begin_together_have_a_page_each(tmp_path):
    runs = [Run(tmp_path / name, *flags(["stages=[sft]", "dashboard_port=8080"])) for name in ("a", "b", "c")]
    pages = [re.search(r"page (http://\S+)", run.finish())[1] for run in runs]
    assert len(set(pages)) == 3, pages


def test_killed_roles_change_nothing(undisturbed, tmp_path):
    run = Run(tmp_path / "a", "--set", "supervisor.hung_after_s=3")
    # The engine hangs; the trainer is killed while it is idle, a step after its last checkpoint.
    for step, role in enumerate(("engine-0", "evaluator", "trainer", "buffer", "router"), start=1):
        run.wait_for_rl_step(min(step, 4))
        time.sleep(0.3)  # into the next step; whenever it falls, the outcome must be the same
        os.kill(run.pid_of(role), signal.SIGSTOP if role == "engine-0" else signal.SIGKILL)
    said = run.finish()
    assert "engine-0 hangs: no answer to /health" in said, said
    same_as(run, undisturbed)


def test_a_full_disk_is_named_and_waited_for(undisturbed, tmp_path):
    """A limit on the size of the buffer's files stands in for it."""
    run = Run(tmp_path / "a")
    run.wait_for_line("bench-base done")
    buffer, unlimited = run.child("buffer"), resource.RLIM_INFINITY
    resource.prlimit(buffer, resource.RLIMIT_FSIZE, (4096, unlimited))
    line = run.wait_for_line("it is asked again for")
    assert "buffer: POST /v2/rollouts: 503" in line and "buffer.sqlite" in line, line
    resource.prlimit(buffer, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    run.finish()
    same_as(run, undisturbed)


def test_generator_processes_make_the_same_run(undisturbed, tmp_path):
    run = Run(tmp_path / "a", "--set", "rollout.generators=2")
    run.wait_for_rl_step(2)
    os.kill(run.pid_of("generator-1"), signal.SIGKILL)
    run.finish()
    same_as(run, undisturbed)


def test_replayed_groups_are_trained_on_again_and_a_kill_changes_nothing(undisturbed, tmp_path):
    flags = ["--set", "rl.replay={groups: 1, steps: 3}", "--set", "stages=[sft, rl]"]
    once = Run(tmp_path / "a", *flags)
    once.finish()
    rl = once.steps("rl")
    assert [step["replayed"] for step in rl] == [0] + [1] * (STEPS - 1)
    assert [step["trajectories"] for step in rl] == [6] * STEPS  # those that are new
    assert all(step["on_policy_fraction"] < 1 for step in rl[1:]) and all(step["stale_sequences"] == 0 for step in rl)
    assert once.weights("rl") != undisturbed.weights("rl")
    again = Run(tmp_path / "b", *flags)
    again.wait_for_rl_step(3)
    os.kill(again.pid_of("trainer"), signal.SIGKILL)
    again.finish()
    assert again.weights("rl") == once.weights("rl")


EVERY_SECOND = flags(["rl.update_interval=2", "stages=[sft, rl]"])


@pytest.fixture(scope="module")
def every_second(tmp_path_factory):
    """An undisturbed run whose engines get every second step's weights."""
    run = Run(tmp_path_factory.mktemp("every_second") / "a", *EVERY_SECOND)
    run.finish()
    return run


def test_new_weights_every_second_step_and_a_kill_changes_nothing(every_second, tmp_path):
    rl = every_second.steps("rl")
    assert [step["on_policy_fraction"] for step in rl] == [float(s % 2 == 0) for s in range(STEPS)]
    assert all(step["stale_sequences"] == 0 for step in rl)
    again = Run(tmp_path / "a", *EVERY_SECOND)
    for step, role in ((2, "engine-0"), (3, "trainer")):  # after an update, and between two
        again.wait_for_rl_step(step)
        os.kill(again.pid_of(role), signal.SIGKILL)
    again.finish()
    assert again.weights("rl") == every_second.weights("rl")


def test_a_stop_between_two_updates_changes_nothing(every_second, tmp_path):
    """The trainer has step 3, the engines the weights of step 2, which step 4 is sampled from."""
    stopped = Run(tmp_path / "a", *EVERY_SECOND)
    stopped.wait_for_rl_step(3)
    stopped.process.send_signal(signal.SIGINT)
    assert "--resume" in stopped.finish(code=130)
    saved = sorted(path.name for path in (stopped.output / "checkpoints/rl").glob("step-*"))
    assert saved and all(int(name.removeprefix("step-")) % 2 == 0 for name in saved), saved
    resumed = Run(tmp_path / "a", *EVERY_SECOND, "--resume")
    resumed.finish()
    assert resumed.weights() == every_second.weights()
    assert resumed.ledger() == every_second.ledger()
    assert [step["on_policy_fraction"] for step in resumed.steps("rl")] == [float(s % 2 == 0) for s in range(STEPS)]


def test_a_killed_rank_of_the_trainer_changes_nothing(tmp_path):
    """Rank 1 answers nobody: rank 0 and the supervisor find out by themselves."""
    flags = ["--set", "placement.actor.dp=2", "--set", "stages=[sft, rl]"]
    once = Run(tmp_path / "a", *flags)
    once.finish()
    again = Run(tmp_path / "b", *flags)
    again.wait_for_rl_step(3)  # the checkpoint is of step 2
    os.kill(again.pid_of("trainer", rank=1), signal.SIGKILL)
    assert "trainer exited with" in again.finish()
    for stage in ("sft", "rl"):
        assert again.weights(stage) == once.weights(stage)
    assert again.ledger() == once.ledger()


def test_over_sampling_trains_on_each_group_once_and_on_none_too_late(tmp_path):
    run = Run(tmp_path / "a", *flags(["stages=[sft, rl]", "rl.over_sampling=2", "rl.max_staleness=2"]))
    for step, role in enumerate(("buffer", "trainer", "engine-0"), start=1):
        run.wait_for_rl_step(step)
        os.kill(run.pid_of(role), signal.SIGKILL)
    run.finish()
    assert [step["step"] for step in run.steps("rl")] == list(range(1, STEPS + 1))
    assert all(step["stale_sequences"] == 0 for step in run.steps("rl"))
    assert any(step.get("ahead") for step in run.steps("rl"))
    assert sorted(run.query("SELECT lease_id, step FROM commits")) == [(f"rl-step-{s}", s) for s in range(1, STEPS + 1)]
    taken = {}
    for lease, groups in run.query("SELECT id, group_ids FROM leases WHERE id LIKE 'rl-step-%'"):
        step = int(lease.removeprefix("rl-step-"))
        assert len(json.loads(groups)) == 2
        for group in json.loads(groups):
            assert group not in taken, f"{group} was trained on in steps {taken[group]} and {step}"
            taken[group] = step
    assert set(taken) == {f"rl-{step}-{index}" for step in range(1, STEPS + 1) for index in range(2)}
    for group, step in taken.items():  # one step ahead, one late, which together are max_staleness
        assert abs(step - int(group.split("-")[1])) <= 1, (group, step)


@pytest.mark.parametrize("mode", ["wait", "abort"])
def test_new_weights_meet_requests_under_way_as_the_recipe_says(tmp_path, mode):
    """What is aborted is continued; in_flight is every other run's mode."""
    settings = ["rl.steps=3", "rl.max_staleness=1", "rollout.max_turns=1", f"engine.update_mode={mode}"]
    run = Run(tmp_path / "a", *flags(["stages=[rl]", *settings]))
    run.wait_for(lambda: any(role["name"] == "engine-0" for role in run.status()["roles"]), "the engine's process")
    words = pathlib.Path(f"/proc/{run.pid_of('engine-0')}/cmdline").read_text().split("\0")
    assert words[words.index("--update-mode") + 1] == mode
    run.finish()
    assert [(step["step"], step["stale_sequences"], step["failed"]) for step in run.steps("rl")] == [
        (step, 0, 0) for step in (1, 2, 3)
    ]
    for trajectory, turns in run.ledger()[1].items():
        step = int(trajectory.split("-")[1])
        for versions in turns:
            assert versions == sorted(versions) and step - 1 <= versions[0] and versions[-1] <= step, trajectory
            assert mode == "abort" or versions[0] == versions[-1], trajectory


def test_a_trainer_killed_at_the_end_of_sft_exports_the_last_step(undisturbed, tmp_path):
    for attempt in range(20):  # the trainer may have exported and left before this process looks
        run = Run(tmp_path / str(attempt), "--set", "stages=[sft]")
        run.wait_for(lambda run=run: len(run.steps("sft")) >= 2, "the last SFT step")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(run.child("trainer"), signal.SIGKILL)
            break
        run.finish()
    else:
        raise AssertionError("the trainer was always gone before it could be killed")
    run.finish()
    assert run.weights("sft") == undisturbed.weights("sft")


def test_stopped_in_any_stage_it_resumes_to_the_same(undisturbed, tmp_path):
    """Ctrl-C in the first bench, a closed terminal in RL, kill -9 in the last bench."""
    disk = HeldDisk(tmp_path)  # it takes no bench's results before the bench was seen: the status tells of few instants
    disk.refuse("figures.json")
    run = Run(tmp_path / "a", program=disk.program)
    run.wait_for(lambda: run.status()["stage"] == "bench base", "the bench")
    run.process.send_signal(signal.SIGINT)
    run.wait_for_line("stopping: the turns under way end")
    disk.take("figures.json")
    said, _ = run.process.communicate(timeout=200)
    assert run.process.returncode == 130 and "--resume" in said.splitlines()[-1], said[-2000:]
    assert (run.status()["state"], run.status()["reason"]) == ("stopped", "Interrupt")
    run = Run(tmp_path / "a", "--resume")
    run.wait_for_rl_step(3)  # the checkpoint is of step 2
    run.process.send_signal(signal.SIGHUP)
    said, _ = run.process.communicate(timeout=200)
    assert run.process.returncode == 129 and "--resume" in said.splitlines()[-1], said[-2000:]
    # Without its checkpoints it cannot go on; with them and without the file that names the latest it can.
    checkpoints, away = run.output / "checkpoints/rl", tmp_path / "away"
    checkpoints.rename(away)
    said = Run(tmp_path / "a", "--resume").finish(code=1)
    assert f"step 1 was trained and is in a checkpoint that is not in {checkpoints} any more" in said, said[-2000:]
    shutil.rmtree(checkpoints)
    away.rename(checkpoints)
    (checkpoints / "latest").unlink()
    disk.refuse("figures.json")
    run = Run(tmp_path / "a", "--resume", program=disk.program)
    run.wait_for(lambda: run.status()["stage"] == "bench rl", "the last bench")
    run.process.kill()
    run.process.communicate()
    run_id = re.search(r"^run_id: (\S+)$", (run.output / "trainer-rl.yaml").read_text(), re.M)[1]
    shared = pathlib.Path(f"/dev/shm/tritonforge-{run_id}")
    assert shared.exists()
    run = Run(tmp_path / "a", "--resume")
    run.finish()
    same_as(run, undisturbed)
    assert not shared.exists()
    # Another recipe is another run.
    other = Run(tmp_path / "a", "--resume", "--set", "rl.prompts_per_step=3")
    assert "rl.prompts_per_step: 2, now 3" in other.finish(code=2)
    assert "--resume" in Run(tmp_path / "a").finish(code=2)


def test_a_bench_commits_nothing_before_its_rows_are_kept(tmp_path):
    """What is committed may be forgotten, and a run that goes on without the rows measures again."""
    flags = ["--set", "stages=[bench]", "--set", "bench.models=[base]"]
    disk = HeldDisk(tmp_path)  # it does not end before its state is in the way
    disk.refuse("figures.json")
    run = Run(tmp_path / "a", *flags, program=disk.program)
    run.wait_for(lambda: run.status()["stage"] == "bench base", "the bench")
    state, kept = run.output / "state.json", run.output / "kept.json"
    state.rename(kept)
    state.mkdir()  # no file can take its place
    disk.take("figures.json")
    assert "--resume" in run.finish(code=1)
    assert run.query("SELECT count(*) FROM commits") == [(0,)]
    state.rmdir()
    kept.rename(state)
    resumed = Run(tmp_path / "a", *flags, "--resume")
    resumed.finish()
    assert [(row["turns"], row["samples"]) for row in resumed.table()] == [(1, 2), (2, 2)]
    assert resumed.query("SELECT count(*) FROM commits") == [(2,)]


def test_a_step_of_which_nothing_counts_ends_the_run_with_its_reason(tmp_path):
    # An engine of the user's own, which the plan cannot look into: no prompt fits.
    with engine_process.engine_process(ROOT / "models/tiny-base", "--max-context", "64") as engine:
        run = Run(tmp_path / "a", "--set", "stages=[bench]", "--set", f"engine.external=[{engine.url}]")
        said = run.finish(code=1)
    assert "bench base: every trajectory failed" in said.splitlines()[-1], said[-2000:]
    assert run.status()["state"] == "failed" and "leaves no room" in run.status()["reason"]
    assert "leaves no room" in said.splitlines()[-1] and "--resume" in said.splitlines()[-1]
    assert run.query("SELECT count(*) FROM trajectories") == [(0,)]


def test_a_closed_pipe_is_no_error(undisturbed, tmp_path):
    run = Run(tmp_path / "a", "--set", "stages=[sft]")
    run.process.stdout.readline()
    run.process.stdout.close()
    assert run.process.wait(120) == 0
    assert run.weights("sft") == undisturbed.weights("sft")


def test_a_disk_that_does_not_take_the_recipe_says_how_to_go_on(tmp_path):
    short = flags(["stages=[sft]", "sft.steps=1"])
    run = Run(tmp_path, *short, program=("prlimit", "--fsize=4096:unlimited", BINARY))
    said = run.finish(1).strip().splitlines()[-1]
    assert said == (
        f"tritonforge: cannot write {run.output}/recipe.yaml: File too large; nothing finished is lost: mend the "
        f"cause, then go on with --resume (folder {run.output})"
    )
    Run(tmp_path, *short, "--resume").finish()
    # Where no run could be begun there is none to go on with.
    said = Run(tmp_path, *short, output=pathlib.Path("/sys/kernel")).finish(1)
    assert "cannot open /sys/kernel/.lock: " in said and "--resume" not in said


def test_a_signal_is_answered_while_the_disk_takes_no_status(tmp_path):
    disk = HeldDisk(tmp_path)
    run = Run(tmp_path / "a", program=disk.program)
    disk.refuse("status.json")
    disk.wait_for_one(run, "status.json")
    run.process.send_signal(signal.SIGINT)
    run.wait_for_line("stopping: the turns under way end")
    disk.take("status.json")
    run.finish(130)


def test_the_status_goes_on_while_the_disk_takes_nothing_else(tmp_path):
    disk = HeldDisk(tmp_path)
    run = Run(tmp_path / "a", "--set", "stages=[rl]", program=disk.program)
    run.wait_for((run.output / "status.json").exists, "a status")
    names = ("state.json", "problems.jsonl", "trajectories.jsonl", "steps.jsonl")
    disk.refuse(*names)  # none is written before its turn
    for name in names:
        disk.wait_for_one(run, name)
        for _ in range(3):  # the first ones may have been begun before
            last = run.status()
            run.wait_for(lambda last=last: run.status() != last, "another status")
        disk.take(name)
    run.process.send_signal(signal.SIGINT)
    run.finish(130)


def test_the_best_model_on_held_out_problems_is_the_result(tmp_path):
    """With an algorithm by name, and dynamic sampling."""
    holdout = "{every: 2, problems: problems/quickstart/holdout, limit: 2, samples: 1}"
    said = Run(
        tmp_path / "a",
        *("--set", "stages=[sft, rl, bench]", "--set", "rl.steps=3", "--set", f"rl.validation={holdout}"),
        *("--set", "rl.algorithm=dapo", "--set", "rl.refills=1", "--set", "rollout.advantage=grpo"),
        *("--set", "bench.models=[sft, rl]"),
        *("--set", "router={policy: consistent_hash, max_running: 12}"),  # fewer than there are at once
    )
    output = said.finish()
    assert "policy consistent_hash" in (said.output / "logs/router.log").read_text()
    # What the router is told of each: GeneratorTest.TheRouterIsToldWhatAnAnswerIsFor.
    asked = said.query("SELECT DISTINCT substr(id, 1, 3), json_extract(options, '$.priority') FROM groups ORDER BY id")
    assert asked == [("ben", "evaluation"), ("rl-", "training"), ("val", "evaluation")]
    measured = [json.loads(line) for line in (said.output / "validation.jsonl").read_text().splitlines()]
    assert [row["step"] for row in measured] == [0, 2, 3], output[-3000:]
    assert all(row["samples"] == 2 and row["failed"] == 0 and 0 <= row["pass_rate"] <= 1 for row in measured)
    best = [row for row in measured if row["best"]][-1]
    assert best["pass_rate"] == max(row["pass_rate"] for row in measured)
    assert said.weights("rl") == said.weights("best")
    assert (said.output / "models/rl-last").exists() == (best["step"] != 3)
    labels = {row["label"] for row in json.loads((said.output / "result.json").read_text())["stages"]}
    assert labels == {"SFT", "SFT+RL" if best["step"] == 3 else f"SFT+RL (step {best['step']})"}
    # Two groups a step, each replaced once where it taught nothing.
    for step in said.steps("rl"):
        assert 2 <= step["groups"] <= 4, step
        assert step["trajectories"] == 3 * step["groups"]
