"""What a failure in candidate or problem code looks like to the model: type, message, its own lines."""

import traceback

import torch

MAX_TEXT = 4000


def classify(error, stage):
    from triton.compiler.errors import CompilationError

    if isinstance(error, SyntaxError):
        return "syntax_error"
    if isinstance(error, CompilationError) or getattr(error, "tritonforge_compile_error", False):
        return "compile_error"
    if isinstance(error, MemoryError):  # of others the trusted side reads it in the text (says_out_of_memory)
        return "out_of_memory"
    return "import_error" if stage == "import" else "runtime_error"


def root_cause(error):
    """The interpreter wraps each level; the model is shown the innermost."""
    from triton.runtime.errors import InterpreterError

    seen = 0
    while isinstance(error, InterpreterError) and error.__cause__ is not None and seen < 32:
        error, seen = error.__cause__, seen + 1
    return error


def instead(error):
    """What to write in the place of a name that older versions of torch had and much code imports."""
    wanted = "cannot import name 'grid' from 'torch._inductor.runtime.triton_heuristics'"
    if not isinstance(error, ImportError) or wanted not in str(error):
        return ""
    return (
        f"\ntorch {torch.__version__} has no grid: a launch says its sizes itself, as in "
        "kernel[(triton.cdiv(xnumel, XBLOCK),)](..., xnumel, XBLOCK=XBLOCK)"
    )


def describe(error, stage, filename, source):
    lines = source.splitlines()
    kind = classify(error, stage)
    inner = root_cause(error)
    text = getattr(error, "tritonforge_text", "") or f"{type(inner).__name__}: {inner}".rstrip() + instead(inner)
    if isinstance(error, SyntaxError):
        text = "".join(traceback.format_exception_only(type(error), error)).replace(filename, "candidate").rstrip()
        return {"kind": kind, "text": text[:MAX_TEXT], "line": error.lineno or 0}
    where, line = [], 0
    chain = [error] if inner is error else [error, inner]
    for item in chain:
        for frame in traceback.extract_tb(item.__traceback__):
            if frame.filename == filename and 0 < frame.lineno <= len(lines):
                entry = f"  line {frame.lineno}, in {frame.name}: {lines[frame.lineno - 1].strip()}"
                if entry not in where:
                    where.append(entry)
                line = frame.lineno
    kernel = getattr(error, "tritonforge_kernel", None)
    if kernel:
        text = f"in kernel {kernel}: {text}"
    if kind == "compile_error" and getattr(error, "tritonforge_line", 0):
        line = error.tritonforge_line
    shown = [*where[:2], "  ...", *where[-4:]] if len(where) > 6 else where
    if shown:
        text = text[:MAX_TEXT] + "\n" + "\n".join(shown)
    return {"kind": kind, "text": text[: MAX_TEXT + 1000], "line": line}
