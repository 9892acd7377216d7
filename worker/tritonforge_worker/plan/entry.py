"""The parameters of a kernel's Triton IR, where a plan binds something else than the code gives the kernel."""

import re

PARAMETER = re.compile(r"(%[\w.$-]+): (!\S+|\w+)")


def with_parameters(text, changed):
    """The IR with what `changed` makes of the line of its kernel's parameters: (line, the kernel's first lines)."""
    lines = text.split("\n")
    header = next(k for k, line in enumerate(lines) if line.lstrip().startswith("tt.func public "))
    lines[header], first = changed(lines[header])
    return "\n".join([*lines[: header + 1], *first, *lines[header + 1 :]])
