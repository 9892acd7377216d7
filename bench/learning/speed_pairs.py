"""Pairs whose solutions are all right and differ in speed: what RL with times in the reward has to choose from.

usage: speed_pairs.py OUTPUT [--count 1500] [--seed 1] [--rl N]     -> lines as `tritonforge data generate` writes them

Problems are chains of elementwise operations, rows' softmaxes, norms and reductions, and columns' reductions, over
tensors of 4 to 16 Mi float32 numbers, where times are memory's and not the launch's. A solution draws at random, from
nothing that the problem says, what makes it fast or slow: block sizes from 64 up, num_warps, one kernel or several, a
row at once or in pieces. So a model that learned them by SFT is as fast as the draw's mean, and what RL gains is what
it learned to choose. Splits go by the combination of operations: train (SFT), rl (RL alone), holdout (bench alone).
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import plain_errors

# name -> (PyTorch over x, Triton over x); {c} is a number that is drawn.
UNARY = {
    "relu": ("torch.relu(x)", "tl.maximum(x, 0.0)"),
    "sigmoid": ("torch.sigmoid(x)", "1.0 / (1.0 + tl.exp(-x))"),
    "silu": ("F.silu(x)", "x / (1.0 + tl.exp(-x))"),
    "exp_half": ("torch.exp(0.5 * x)", "tl.exp(0.5 * x)"),
    "square": ("x * x", "x * x"),
    "abs": ("torch.abs(x)", "tl.abs(x)"),
    "scale": ("x * {c}", "x * {c}"),
    "shift": ("x + {c}", "x + {c}"),
    "leaky_relu": ("F.leaky_relu(x, 0.{d})", "tl.where(x > 0, x, 0.{d} * x)"),
    "hardtanh": ("F.hardtanh(x, -{c}, {c})", "tl.minimum(tl.maximum(x, -{c}), {c})"),
    "softplus": ("torch.log(1.0 + torch.exp(-torch.abs(x)))", "tl.log(1.0 + tl.exp(-tl.abs(x)))"),
    "elu": ("F.elu(x)", "tl.where(x > 0, x, tl.exp(tl.minimum(x, 0.0)) - 1.0)"),
    "softsign": ("x / (1.0 + torch.abs(x))", "x / (1.0 + tl.abs(x))"),
    "root": ("torch.sqrt(x * x + {c})", "tl.sqrt(x * x + {c})"),
}
# name -> (PyTorch, the kind that row_at_once and row_in_pieces write).
ROWS = {
    "softmax": ("torch.softmax(x, dim=-1)", "softmax"),
    "rms_norm": ("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)", "rms"),
    "layer_norm": ("F.layer_norm(x, (x.shape[-1],))", "layer"),
    "row_sum": ("torch.sum(x, dim=-1)", "sum"),
    "row_mean": ("torch.mean(x, dim=-1)", "mean"),
    "row_max": ("torch.max(x, dim=-1)[0]", "max"),
}
# name -> (PyTorch, what a sum begins with, what a number becomes in it, what the sums of a column become).
COLUMNS = {
    "column_sum": ("torch.sum(x, dim=0)", "0.0", "acc + x", "tl.sum(acc, axis=0)"),
    "column_mean": ("torch.mean(x, dim=0)", "0.0", "acc + x", "tl.sum(acc, axis=0) / n_rows"),
    "column_max": ("torch.max(x, dim=0)[0]", '-float("inf")', "tl.maximum(acc, x)", "tl.max(acc, axis=0)"),
}
MASKED = {"max": '-float("inf")', "softmax": '-float("inf")'}  # what a lane beyond the row counts as; 0.0 otherwise

PROBLEM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
{forward}        return x


def get_inputs():
    return [torch.randn({rows}, {columns})]


def get_init_inputs():
    return []
"""
SOLUTION = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


{kernels}

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
{forward}        return x
"""
ELEMENTWISE = """\
@triton.jit
def {name}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
{steps}    tl.store(out_ptr + offsets, x, mask=mask)
"""
ROW_AT_ONCE = """\
@triton.jit
def row_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
{steps}{reduce}"""
ROW_IN_PIECES = """\
@triton.jit
def row_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
{passes}"""
PIECE = """\
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
{steps}{line}
"""
COLUMN = """\
@triton.jit
def column_kernel(x_ptr, out_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    acc = tl.full((ROWS, COLS), {start}, dtype=tl.float32)
    for first in range(0, n_rows, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
{steps}        acc = tl.where(mask, {join}, acc)
    acc = {end}
    tl.store(out_ptr + cols, acc, mask=cols < n_cols)
"""


def lines(texts, indent):
    return "".join(f"{' ' * indent}x = {text}\n" for text in texts)


def row_at_once(kind):
    """The lines behind the load of a whole row."""
    inside = f"tl.where(mask, x, {MASKED.get(kind, '0.0')})"
    whole = "    tl.store(out_ptr + row * n_cols + cols, x, mask=mask)\n"
    return {
        "softmax": f"    x = {inside}\n    x = tl.exp(x - tl.max(x, axis=0))\n    x = x / tl.sum(x, axis=0)\n{whole}",
        "rms": f"    total = tl.sum({inside} * x, axis=0)\n    x = x * tl.rsqrt(total / n_cols + 1e-5)\n{whole}",
        "layer": f"    mean = tl.sum({inside}, axis=0) / n_cols\n    x = x - mean\n"
        f"    var = tl.sum({inside} * x, axis=0) / n_cols\n    x = x * tl.rsqrt(var + 1e-5)\n{whole}",
        "sum": f"    tl.store(out_ptr + row, tl.sum({inside}, axis=0))\n",
        "mean": f"    tl.store(out_ptr + row, tl.sum({inside}, axis=0) / n_cols)\n",
        "max": f"    tl.store(out_ptr + row, tl.max({inside}, axis=0))\n",
    }[kind]


def row_in_pieces(kind, steps):
    inside = f"tl.where(mask, x, {MASKED.get(kind, '0.0')})"

    def loop(line):
        return PIECE.format(steps=lines(steps, 8), line=f"        {line}")

    def sums(value):
        return "    acc = tl.zeros((BLOCK,), dtype=tl.float32)\n" + loop(f"acc += {value}")

    def maxima():
        return '    top = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)\n' + loop(
            f"top = tl.maximum(top, {inside})"
        )

    def out(value):
        return loop(f"tl.store(out_ptr + row * n_cols + cols, {value}, mask=mask)")

    centred = "tl.where(mask, (x - mean) * (x - mean), 0.0)"
    top, total = "    top = tl.max(top, axis=0)\n", "    total = tl.sum(acc, axis=0)\n"
    return {
        "softmax": maxima() + top + sums(f"tl.exp({inside} - top)") + total + out("tl.exp(x - top) / total"),
        "rms": sums(f"{inside} * x") + total + out("x * tl.rsqrt(total / n_cols + 1e-5)"),
        "layer": sums(inside) + "    mean = tl.sum(acc, axis=0) / n_cols\n" + sums(centred) + total
        + out("(x - mean) * tl.rsqrt(total / n_cols + 1e-5)"),
        "sum": sums(inside) + total + "    tl.store(out_ptr + row, total)\n",
        "mean": sums(inside) + total + "    tl.store(out_ptr + row, total / n_cols)\n",
        "max": maxima() + top + "    tl.store(out_ptr + row, top)\n",
    }[kind]  # fmt: skip


def elementwise(steps, draw, number=""):
    """(kernel, launch) of one pass over x."""
    name, block = f"chain_kernel{number}", 2 ** draw.randint(6, 13)
    launch = (
        f"        out = torch.empty_like(x)\n        n = x.numel()\n"
        f"        {name}[(triton.cdiv(n, {block}),)](x, out, n, BLOCK={block}, num_warps={2 ** draw.randint(0, 4)})\n"
        f"        x = out\n"
    )
    return ELEMENTWISE.format(name=name, steps=lines(steps, 4)), launch


def by_rows(kind, steps, draw):
    reduces = kind in ("sum", "mean", "max")
    out = "torch.empty(n_rows, device=x.device, dtype=x.dtype)" if reduces else "torch.empty_like(x)"
    warps = 2 ** draw.randint(0, 5)
    if draw.random() < 0.5:
        block = "triton.next_power_of_2(n_cols)"
        kernel = ROW_AT_ONCE.format(steps=lines(steps, 4), reduce=row_at_once(kind))
    else:
        block = 2 ** draw.randint(6, 11)
        kernel = ROW_IN_PIECES.format(passes=row_in_pieces(kind, steps))
    launch = (
        f"        n_rows, n_cols = x.shape\n        out = {out}\n"
        f"        row_kernel[(n_rows,)](x, out, n_cols, BLOCK={block}, num_warps={warps})\n        x = out\n"
    )
    return kernel, launch


def by_columns(column, steps, draw):
    _, start, join, end = column
    rows, cols, warps = 2 ** draw.randint(0, 6), 2 ** draw.randint(4, 8), 2 ** draw.randint(1, 3)
    launch = (
        f"        n_rows, n_cols = x.shape\n        out = torch.empty(n_cols, device=x.device, dtype=x.dtype)\n"
        f"        column_kernel[(triton.cdiv(n_cols, {cols}),)](x, out, n_rows, n_cols, ROWS={rows}, COLS={cols}, "
        f"num_warps={warps})\n        x = out\n"
    )
    return COLUMN.format(steps=lines(steps, 8), start=start, join=join, end=end), launch


def pair(number, draw, splits):
    last = draw.choice(["", *ROWS, *COLUMNS]) if draw.random() < 0.7 else ""
    chain = draw.sample(sorted(UNARY), draw.randint(0 if last else 2, 3 if last else 5))
    families = [*chain, *([last] if last else [])]
    combo = "+".join(families)
    numbers = {"c": draw.choice(["0.5", "1.5", "2.0", "3.0"]), "d": draw.choice("1235")}
    asked = [UNARY[name][0].format(**numbers) for name in chain]
    steps = [UNARY[name][1].format(**numbers) for name in chain]
    columns = 2 ** draw.randint(9, 13)
    rows = 2 ** draw.randint(22, 24) // columns
    asked += [(ROWS | COLUMNS)[last][0]] if last else []
    parts = []
    if len(steps) > 1 and draw.random() < 0.4:  # what could be one kernel is two
        cut = draw.randint(1, len(steps) - (0 if last else 1))
        parts.append(elementwise(steps[:cut], draw, 1))
        steps = steps[cut:]
    if last in ROWS:
        parts.append(by_rows(ROWS[last][1], steps, draw))
    elif last in COLUMNS:
        parts.append(by_columns(COLUMNS[last], steps, draw))
    else:
        parts.append(elementwise(steps, draw, 2 if parts else ""))
    return {
        "id": f"own_{number}",
        "families": families,
        "combo": combo,
        "style": "full",
        "split": splits.setdefault("+".join(sorted(families)), draw.choices(["train", "rl", "holdout"], [6, 3, 1])[0]),
        "problem": PROBLEM.format(forward=lines(asked, 8), rows=rows, columns=columns),
        "solution": SOLUTION.format(
            kernels="\n\n".join(kernel for kernel, _ in parts), forward="".join(launch for _, launch in parts)
        ),
        "verified": False,
        "seed": number,
    }


def with_few_for_rl(pairs, most):
    """Of split rl the first pair of each of so many combinations, of the other splits all."""
    kept, seen = [], set()
    for each in pairs:
        combo = "+".join(sorted(each["families"]))
        if each["split"] == "rl" and (combo in seen or len(seen) == most):
            continue
        if each["split"] == "rl":
            seen.add(combo)
        kept.append(each)
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rl", type=int, help="at most so many problems of split rl, each a combination of its own")
    args = parser.parse_args()
    draw, splits = random.Random(args.seed), {}
    pairs = [pair(number, draw, splits) for number in range(1, args.count + 1)]
    if args.rl is not None:
        pairs = with_few_for_rl(pairs, args.rl)
    args.output.write_text("".join(json.dumps(each) + "\n" for each in pairs))
    counts = {split: sum(each["split"] == split for each in pairs) for split in ("train", "rl", "holdout")}
    print(f"{len(pairs)} pairs, {len(splits)} combinations: {counts}")


if __name__ == "__main__":
    plain_errors.use()
    main()
