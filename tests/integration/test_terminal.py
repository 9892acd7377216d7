"""`tritonforge run` in a real terminal, tmux: one table, one line of roles, one progress bar at the bottom, at every
size of the window and after each change of it; above them the steps, each once."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from runs import RECIPE, ROOT, HeldDisk

BAR = re.compile(r"^\S+( \S+)? +\[[#.]+\] \d+/\d+")
STEP = re.compile(r"^(sft|rl) +\d+ +(loss|reward)")
ENDED = "starting it again"
DEADLINE_S = 240


class Terminal:
    def __init__(self, folder, command, width, height):
        self.base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self.said = folder / "ended.txt"
        self.command("new-session", "-d", "-x", str(width), "-y", str(height), f"{command}; echo $? > {self.said}; cat")
        self.command("set-option", "-g", "window-size", "manual")

    def command(self, *words):
        environment = dict(os.environ, TRITONFORGE_ROOT=str(ROOT), LC_ALL="C.UTF-8", TERM="xterm-256color")
        return subprocess.run([*self.base, *words], check=True, capture_output=True, text=True, env=environment).stdout

    def screen(self):
        return [line.rstrip() for line in self.command("capture-pane", "-p").splitlines()]

    def history(self):
        return [line.rstrip() for line in self.command("capture-pane", "-p", "-S", "-").splitlines()]

    def resize(self, width, height):
        self.command("resize-window", "-x", str(width), "-y", str(height))

    def wait(self, condition, what):
        """The screen on which it holds."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            lines = self.screen()
            if condition(lines):
                return lines
            assert time.monotonic() < deadline, what + "\n" + "\n".join(lines)
            time.sleep(0.05)

    def close(self):
        subprocess.run([*self.base, "kill-server"], capture_output=True)


def bars(lines):
    return [row for row, line in enumerate(lines) if BAR.match(line)]


def tables(lines):
    return [row for row, line in enumerate(lines) if line.startswith("model")]


def shows(lines, *, table):
    """One bar, with nothing below it, and over it one table or none."""
    found = bars(lines)
    below = [line for line in lines[found[0] + 1 :] if line] if found else []
    return len(found) == 1 and not below and len(tables(lines)) == (1 if table else 0)


@pytest.fixture
def terminal(tmp_path):
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    recipe = tmp_path / "small.yaml"
    recipe.write_text(RECIPE)
    settings = "--set stages=[sft,rl,bench] --set bench.models=[base,sft] --set rl.steps=8"
    disk = HeldDisk(tmp_path)
    program = " ".join(disk.program)
    made = Terminal(tmp_path, f"cd {ROOT} && {program} run {recipe} --output {tmp_path}/run {settings}", 110, 30)
    made.disk = disk
    yield made
    made.close()


def kill_the_buffer(folder):
    """Of the run in `folder`; its supervisor says so in a log line and starts it again."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text().split("\0") if entry.name.isdigit() else []
        except OSError:
            continue  # it has ended
        if words[1:3] == ["serve", "buffer"] and any(str(folder) in word for word in words):
            return os.kill(int(entry.name), signal.SIGKILL)
    raise AssertionError("no buffer")


def test_the_table_stays_whatever_becomes_of_the_window(terminal, tmp_path):
    terminal.wait(lambda lines: bars(lines) and tables(lines), "no table")
    terminal.disk.refuse("figures.json")  # the last bench goes on until the window was changed
    kill_the_buffer(tmp_path / "run")
    terminal.wait(lambda lines: ENDED in "".join(lines) and shows(lines, table=True), "nobody says that it was killed")
    for width, height, table in ((110, 30, True), (60, 12, None), (40, 5, False), (140, 40, True)):
        terminal.resize(width, height)
        if table is None:
            lines = terminal.wait(lambda lines: len(bars(lines)) == 1, f"{width} x {height}")
        else:
            lines = terminal.wait(lambda lines, table=table: shows(lines, table=table), f"{width} x {height}")
        assert max(map(len, lines)) <= width and len(lines) <= height
    terminal.disk.take("figures.json")
    terminal.wait(lambda _: terminal.said.exists(), "no end")
    assert terminal.said.read_text().strip() == "0"
    assert not bars(terminal.screen()), "the bar is left behind"
    assert len(tables(terminal.screen())) == 1, "the table is the end"
    # Nothing that scrolled by is lost, and nothing of it stands on the screen twice, whatever was redrawn below it. In
    # the history it may: a smaller window pushed it out before the screen was drawn anew.
    steps = [f"rl {step:4}" for step in range(1, 9)]
    whole, screen = terminal.history(), terminal.screen()
    assert set(steps) == {line[:7] for line in whole if STEP.match(line) and line.startswith("rl")}, whole
    assert all(sum(line.startswith(step) for line in screen) <= 1 for step in steps), screen
    assert ENDED in "".join(whole)
    assert pathlib.Path(tmp_path / "run/result.json").exists()
