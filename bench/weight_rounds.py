"""Weights to several machines at once: to each over TCP, and to all in rounds, in turns, between network namespaces of
this machine with links of one rate.

    bench/weight_rounds.py BUILD [--engines 1,2,4] [--mib 64] [--rate 200mbit] [--rounds 5]

For each number of engines and way: seconds until all have the weights and have compared checksums, median [lowest,
highest], and the rate at which each got them. All are of one version, so that in rounds each time has the second in
which others may come; a run's later versions have not. Needs root and iproute2.
"""

import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/integration"))
import plain_errors

from machines import Machine, remove_all


class Process:
    def __init__(self, machine, *words):
        command = machine.command(*words) if machine else words
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self):
        said = self.process.stdout.readline().strip()
        if not said:
            sys.exit(f"weight_rounds: it ended before it was asked to: {' '.join(map(str, self.process.args))}")
        return said

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--engines", default="1,2,4")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program = f"{arguments.build}/bench/weight_rounds"
    counts = [int(count) for count in arguments.engines.split(",")]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        machines = []
        stack.callback(lambda: remove_all(machines))
        for number in range(1, max(counts) + 2):
            machines.append(Machine(number, pathlib.Path(folder)))
            shape = f"root tbf rate {arguments.rate} burst 256kb latency 50ms"
            subprocess.run(f"tc qdisc add dev {machines[-1].link} {shape}".split(), check=True)
            inner = machines[-1].link.replace("h", "n")
            machines[-1].inside(*f"tc qdisc add dev {inner} {shape}".split())
        trainer = Process(machines[0], program, "serve", machines[0].address, str(arguments.mib))
        stack.callback(trainer.end)
        published = trainer.line()
        for count in counts:
            for way in ("tcp", "group"):
                engines = [
                    Process(machine, program, "take", str(arguments.mib), way) for machine in machines[1 : count + 1]
                ]
                for engine in engines:
                    assert engine.line() == "ready"
                seconds = []
                for round_ in range(arguments.rounds + 1):
                    for engine in engines:
                        engine.say(published)
                    took = max(float(engine.line()) for engine in engines)
                    if round_ > 0:
                        seconds.append(took)
                for engine in engines:
                    engine.end()
                middle = statistics.median(seconds)
                print(
                    f"{count} engines, {way}: {middle:.2f} s [{min(seconds):.2f}, {max(seconds):.2f}], "
                    f"{arguments.mib * 8 * 1.048576 / middle:.0f} Mbit/s to each",
                    flush=True,
                )


if __name__ == "__main__":
    plain_errors.use()
    main()
