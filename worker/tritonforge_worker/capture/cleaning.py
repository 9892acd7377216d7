"""What a template or a generator leaves in a function, and a person would not have written."""

import ast


def without_docstring(function):
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:]
    return function


def names_read(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def targets_of(node):
    """The names that an assignment binds; none for what is no assignment."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


# Calls of a kernel that only give a value, and one that says nothing to whom debugs nothing.
WITHOUT_EFFECT = {"tl.full", "tl.arange", "tl.broadcast_to", "tl.program_id", "tl.device_assert"}


def has_effect(node):
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
    return any(ast.unparse(call.func) not in WITHOUT_EFFECT for call in calls)


class Unread(ast.NodeTransformer):
    def __init__(self, read):
        self.read = read

    def visit_Expr(self, node):
        return node if has_effect(node.value) else None

    def assignment(self, node):
        return node if targets_of(node) & self.read else None

    visit_Assign = visit_AnnAssign = assignment


def drop_unread(function):
    """Assignments to names that nothing reads, of which none of a kernel's has another effect, and values that nobody
    takes."""
    size = None
    while size != (size := sum(1 for _ in ast.walk(function))):
        Unread(names_read(function)).visit(function)


class Decided(ast.NodeTransformer):
    def __init__(self, known):
        self.known = known

    def visit_If(self, node):
        self.generic_visit(node)
        if not names_read(node.test) <= set(self.known):
            return node
        test = compile(ast.Expression(node.test), "test", "eval")
        return node.body if eval(test, {"__builtins__": {}}, self.known) else node.orelse or None


def decide_branches(function):
    """Branches on numbers that are written in the function."""
    bound = [name for node in ast.walk(function) for name in targets_of(node)]
    known = {
        name: node.value.value
        for node in function.body
        for name in targets_of(node)
        if isinstance(node.value, ast.Constant) and bound.count(name) == 1
    }
    Decided(known).visit(function)
