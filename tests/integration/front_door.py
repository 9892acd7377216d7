"""The tables of docs/from-*.md, and a folder in which their commands run with a small model."""

import json
import os
import pathlib
import re
import shlex
import subprocess

from test_buffer import wait_until

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))
PAGES = ("from-tritonforge.md", "from-slime.md", "from-kernelbench.md")


def text_of(page):
    return (ROOT / "docs" / page).read_text()


def rows(column, pages=PAGES):
    """(page and first cell, the cell of that column) of each row of each table that has such a column."""
    found = []
    for page in pages:
        head = None
        for line in text_of(page).splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else None
            if cells is None:
                head = None
            elif head is None:
                head = cells
            elif not set(line) <= set("|- :"):
                assert len(cells) == len(head), f"{page}: {line}"
                if column in head:
                    found.append((f"{page}: {cells[0]}", cells[head.index(column)]))
    return found


def code(cell):
    return re.findall(r"`(.+?)`", cell)


def says_none(cell):
    """Whether a row has no counterpart; a setting or a command in it is then only spoken of."""
    return cell.split(":")[0] == "none"


def commands():
    """What is to be run, each once, with the rows that name it."""
    named = {}
    for row, cell in rows("command"):
        if not says_none(cell):
            (command,) = code(cell)
            named.setdefault(command, []).append(row)
    return named


def small():
    """The settings with which the first page says to try a command on two cores."""
    settings = re.search(r'^SMALL="(.*?)"', text_of("from-tritonforge.md"), re.MULTILINE | re.DOTALL)[1]
    return settings.split()


def call(*words, cwd=None):
    return subprocess.run([BINARY, *words], cwd=cwd, capture_output=True, text=True, timeout=200)


def tritonforge(*words, cwd=None):
    done = call(*words, cwd=cwd)
    assert done.returncode == 0, f"{words}\n{(done.stdout + done.stderr)[-4000:]}"
    return done


PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.{operator}(x)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []
"""
KERNEL = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_pointer, out_pointer, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_pointer + offsets, mask=mask)
    tl.store(out_pointer + offsets, {expression}, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
"""
RIGHT = KERNEL.format(expression="tl.maximum(x, 0.0)")
WRONG = KERNEL.format(expression="x + 1.0")


def place(folder):
    """What the commands name: models/, data/, recipes/, problems/, some kernels, and a configuration of the page."""
    (folder / "models").mkdir(parents=True)
    for name in ("tiny-base", "Qwen3-8B", "Qwen3-8B-Kernelbook-SFT-HF"):
        (folder / "models" / name).symlink_to(ROOT / "models/tiny-base")
    for name in ("recipes", "problems"):
        (folder / name).symlink_to(ROOT / name)
    problems = {"level1/1_Relu": "relu", "level1/3_Abs": "abs", "level1/19_Exp": "exp", "level2/1_Square": "square"}
    for name, operator in problems.items():
        path = folder / "data/KernelBench" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROBLEM.format(operator=operator))
    (folder / "relu_triton.py").write_text(RIGHT)
    theirs = folder / "runs/theirs"
    theirs.mkdir(parents=True)
    for name, source in (("1_sample_0", RIGHT), ("1_sample_2", WRONG), ("3_sample_0", "import torch\n")):
        (theirs / f"level_1_problem_{name}_kernel.py").write_text(source)
    page = text_of("from-tritonforge.md")
    (folder / "rl-prompts.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    write_prompts(folder / "data/kernel_bench_triton_level_1_2.jsonl")
    write_conversations(folder / "data/kernelbook_sft_filtered_10000.parquet")
    return folder


def prompt_row(number, operator="relu", level=1):
    """A line of the original's file for RL."""
    return {
        "prompt": [
            {"role": "system", "content": "You are an expert in writing Triton kernels."},
            {"role": "user", "content": f"Replace the operators.\n```python\n{PROBLEM.format(operator=operator)}```"},
        ],
        "label": PROBLEM.format(operator=operator),
        "extra_info": {
            "level": level,
            "problem_id": str(number),
            "problem_name": f"{number}_{operator}.py",
            "data_source": "kernel_bench_triton",
            "task_type": "kernelbench",
        },
        "instance_id": f"kernel_bench_triton_lv{level}_{number}",
    }


def one_prompt_twice(folder, max_tokens):
    """What the original's trainer posts to /start_rollout: a prompt, two samples."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text(json.dumps(prompt_row(1)) + "\n")
    return {
        "input_file": str(prompts),
        "num_epoch": "1",
        "num_repeat_per_sample": "2",
        "task_type": "kernelbench",
        "sampling_params": {"max_tokens": max_tokens, "temperature": 1.0},
    }


def two_items(ask, rollout):
    """Starts it and reads both of its items. ask(path, body): the buffer's status and reply."""
    status, reply = ask("/start_rollout", rollout)
    assert status == 200, reply
    items = []

    def both():
        status, reply = ask("/get_rollout_data", {})
        assert status == 200, reply
        items.extend(reply["data"]["data"] if reply["success"] else [])
        return len(items) >= 2

    wait_until(both, "two trajectories")
    return items


def write_prompts(path):
    lines = [prompt_row(1, "relu"), prompt_row(3, "abs"), prompt_row(1, "square", level=2)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_conversations(path):
    import pyarrow
    import pyarrow.parquet

    conversations = [
        {"messages": [{"role": "user", "content": f"Kernel {i}?"}, {"role": "assistant", "content": f"x = {i}"}]}
        for i in range(8)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(conversations), path)


def words_of(command):
    words = shlex.split(command)
    assert words[0] == "tritonforge", command
    return words[1:]
