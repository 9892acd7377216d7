"""Registers, stack and spills of every kernel, from ptxas's own report. Fails where a kernel has more stack (spills, or
an array that went to memory) than its limit, or where the tensor cores of Hopper wait for each product.

usage: build_report.py FOLDER       the folder of the *.ptxas files
"""

import pathlib
import re
import sys

# Bytes of stack a kernel may have: none on Hopper, a few on Ampere, where the prefill kernel lacks registers.
ELSEWHERE = {
    "rope_table_kernel<>": 32,  # sines of large angles, computed once
    # Of the two warps that fetch and add, which have 24 registers a thread; those that multiply have 240, and no stack.
    "attention_backward_kernel<128>": 32,
    "attention_backward_kernel<64>": 68,
}
LIMITS = {"sm_90a": 0, "sm_90": 0, "sm_80": 128}


def entries(text):
    """(kernel, target, registers, bytes of stack or spill stores, the larger) of each entry of one report."""
    target = kernel = None
    spills = 0
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line):
            kernel, target, spills = found.group(1), found.group(2), 0
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            spills = max(int(found.group(1)), int(found.group(2)))
        elif (found := re.search(r"Used (\d+) registers", line)) and kernel:
            yield kernel, target, int(found.group(1)), spills
            kernel = None


def readable(kernel):
    """The kernel's own name and its template arguments, of a mangled name."""
    name = re.search(r"\d+([a-z_]+_kernel)(I(?:L[a-z]\d+E)+E)?", kernel)
    arguments = ", ".join(re.findall(r"L[a-z](\d+)E", name.group(2) or "")) if name else ""
    return f"{name.group(1)}<{arguments}>" if name else kernel


def main():
    reports = sorted(pathlib.Path(sys.argv[1]).glob("*.ptxas"))
    seen, failures = 0, 0
    for report in reports:
        if "wgmma.mma_async instructions are serialized" in report.read_text():
            failures += 1
            print(f"{report.stem}: products of warpgroups are serialized")
        for kernel, target, registers, spills in entries(report.read_text()):
            seen += 1
            bad = spills > ELSEWHERE.get(readable(kernel), LIMITS.get(target, 0))
            failures += bad
            note = "  <- too many" if bad else ""
            name = f"{report.stem:20} {readable(kernel):36} {target:7}"
            print(f"{name} {registers:4} registers {spills:4} bytes of stack{note}")
    if not seen:
        print(f"no report of ptxas in {sys.argv[1]}: build tritonforge_cuda first")
    return 1 if failures or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
