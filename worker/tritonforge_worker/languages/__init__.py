"""The languages of a candidate's kernels (docs/backends.md). A module each, with

    install()                          before the candidate's code runs: what it may call to get a kernel
    Launches(recording, path, targets) records launches while forward is recorded
    compile(text, target, options, folder) -> (how it is launched, binary); raises what the compiler says

Which of them a request may name is decided in src/evaluate/languages/."""

import importlib

NAMES = ("triton", "cuda", "hip", "opencl")


def language(name):
    if name not in NAMES:
        raise ValueError(f"no language '{name}'")
    return importlib.import_module(f"tritonforge_worker.languages.{name}")
