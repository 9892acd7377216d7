"""What the source says before it runs: syntax, and reaches for what no kernel needs.

Doubts that a reader is told of. They decide nothing: honest code imports gc, and the sandbox, the separate processes,
the replay and the comparison outside hold without them.
"""

import ast

# fmt: off
MODULES = {"ctypes", "gc", "socket", "subprocess", "multiprocessing", "pty", "cffi", "mmap", "resource", "fcntl",
           "tritonforge_worker", "_posixsubprocess", "urllib", "requests", "http"}
ATTRIBUTES = {"_getframe", "__subclasses__", "__closure__", "cell_contents", "f_back", "f_globals", "f_locals",
              "__code__", "tb_frame", "get_objects", "get_referrers", "_current_frames", "set_wakeup_fd"}
PATCHED_ROOTS = {"torch", "triton", "tl", "time", "np", "numpy", "builtins"}
# fmt: on


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return ""


def screen(tree):
    """[(flag, evidence)] in source order; at most one of each flag."""
    found = {}

    def add(flag, node, what):
        found.setdefault(flag, f"line {node.lineno}: {what}")

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in MODULES:
                    add("forbidden_access", node, f"import {alias.name}")
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in MODULES:
                add("forbidden_access", node, f"from {node.module} import")
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            add("forbidden_access", node, f".{node.attr}")
        elif isinstance(node, ast.Attribute) and dotted(node) == "sys.modules":
            add("forbidden_access", node, "sys.modules")
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in ("exec", "eval", "__import__", "compile"):
                add("dynamic_code", node, f"{name}()")
            elif name == "setattr" and node.args and dotted(node.args[0]).split(".")[0] in PATCHED_ROOTS:
                add("forbidden_access", node, f"setattr({dotted(node.args[0])}, ...)")
            elif name.endswith(("_make_subclass", "_make_wrapper_subclass")):
                add("forbidden_access", node, name)
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = dotted(target)
                if "." in name and name.split(".")[0] in PATCHED_ROOTS and not name.startswith("torch.backends."):
                    add("forbidden_access", node, f"{name} = ...")
    return sorted(found.items())
