"""The filters of system calls that processes live in."""

import pathlib
import re


def filtered(pid):
    """How many filters of its calls each process of a server has: itself and those that it began."""
    state = pathlib.Path(f"/proc/{pid}/status").read_text()
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(re.search(r"^Seccomp_filters:\t(\d+)", state, re.M)[1]), *(n for c in children for n in filtered(c))]
