#!/usr/bin/env python3
"""Checkpoints of a trainer of several ranks on this machine's CPU: how long each took behind its step, how long the
trainer stood still for it, and the most memory that each rank had.

    bench/checkpoint_ranks.py BINARY [BINARY...] [--degrees tp=2,pp=2] [--hidden 768 --layers 8] [--checkpoints 5]

Several binaries are compared in turns, a job of ranks each. Prints a line a job and round, and the medians."""

import argparse
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/integration"))
import plain_errors

import test_ranks
import test_trainer


def shape(arguments):
    return {
        "hidden_size": arguments.hidden,
        "intermediate_size": 3 * arguments.hidden,
        "num_hidden_layers": arguments.layers,
        "num_attention_heads": arguments.hidden // 64,
        "num_key_value_heads": arguments.hidden // 64,
        "head_dim": 64,
        "vocab_size": 32000,
    }


def peak_mib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def figure(ranks, name):
    with test_trainer.urllib.request.urlopen(f"http://127.0.0.1:{ranks.port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"tritonforge_trainer_{name}"))


def run(binary, arguments, degrees):
    """Seconds of each checkpoint but the first, which takes its memory, and of the stops for them; MiB of each rank."""
    test_trainer.BINARY = test_ranks.BINARY = binary
    folder = pathlib.Path(tempfile.mkdtemp(prefix="checkpoint-ranks-", dir=arguments.folder))
    try:
        with test_ranks.Ranks(folder, degrees, shape=shape(arguments), keep_checkpoints=1) as ranks:
            seconds, stops = [], []
            for number in range(1, arguments.checkpoints + 2):
                ranks.step(number)
                begun = time.monotonic()
                ranks.wait_for(lambda status, number=number: status["checkpoint_step"] == number)
                seconds.append(time.monotonic() - begun)
                stops.append(figure(ranks, "checkpoint_stall_seconds"))
            return seconds[1:], stops[1:], [peak_mib(process) for process in ranks.processes]
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--degrees", default="tp=2,pp=2")
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--checkpoints", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", help="of the checkpoints; the system's temporary one")
    arguments = parser.parse_args()
    degrees = {axis: int(degree) for axis, degree in (part.split("=") for part in arguments.degrees.split(","))}
    rows = {binary: [] for binary in arguments.binaries}
    for number in range(arguments.rounds):
        for binary in arguments.binaries:
            seconds, stops, peaks = run(binary, arguments, degrees)
            rows[binary].append((statistics.median(seconds), statistics.median(stops), peaks[0]))
            print(
                f"round {number + 1}, {binary}: written in {min(seconds):.2f} to {max(seconds):.2f} s, standing still "
                f"{min(stops):.2f} to {max(stops):.2f} s, MiB at most {[round(peak) for peak in peaks]}",
                flush=True,
            )
    for binary, results in rows.items():
        seconds, stops, peaks = (statistics.median(values) for values in zip(*results, strict=True))
        print(f"{binary}: medians: written in {seconds:.2f} s, standing still {stops:.2f} s, rank 0 {peaks:.0f} MiB")


if __name__ == "__main__":
    plain_errors.use()
    main()
