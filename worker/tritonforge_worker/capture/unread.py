"""What nobody reads in the function that launches KernelBook's kernels: beside what forward returns it gives what a
backward would want, and kernels write that, too."""

import ast
import collections

from tritonforge_worker.capture.kernels import dotted

MADE_BY = {"empty_strided_cuda", "reinterpret_tensor"}


def bodies_of(call):
    return [call.body, *(node.body for node in call.body if isinstance(node, ast.With))]


def called(node):
    return getattr(getattr(node, "func", None), "id", "")


def reads_of(call):
    """How often each name is read, other than by what asserts its form."""
    kept = [s for body in bodies_of(call) for s in body if not isinstance(s, ast.With)]
    kept = [s for s in kept if called(getattr(s, "value", None)) != "assert_size_stride"]
    names = (n for s in kept for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return collections.Counter(name.id for name in names)


def stores(function):
    return any(dotted(n.func)[1] == "store" or "atomic" in dotted(n.func)[1] for n in calls(function))


def calls(node):
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


class WithoutStores(ast.NodeTransformer):
    """Of a kernel, to what a parameter points to."""

    def __init__(self, parameter):
        self.parameter = parameter

    def visit_Expr(self, node):
        return None if self.is_store(node) else node

    def visit_For(self, node):
        self.generic_visit(node)
        return node if node.body else None

    visit_If = visit_For

    def is_store(self, node):
        value = node.value
        is_store = dotted(getattr(value, "func", None)) == ("tl", "store")
        return is_store and self.uses(value.args[0]) == self.uses(value) > 0

    def uses(self, node):
        return sum(getattr(n, "id", "") == self.parameter for n in ast.walk(node))

    def has_all_of(self, function):
        """Whether the parameter is there for nothing else."""
        statements = (node for node in ast.walk(function) if isinstance(node, ast.Expr))
        return sum(self.uses(node) for node in statements if self.is_store(node)) == self.uses(function)


class Pruned:
    def __init__(self, call, functions):
        """`functions`: those of the module, by name. Both are changed."""
        self.call, self.functions = call, functions
        size = None
        while size != (size := sum(len(list(ast.walk(node))) for node in (call, *functions.values()))):
            self.reads = reads_of(call)
            for body in bodies_of(call):
                body[:] = [statement for statement in body if not self.is_unread(statement)]
            self.drop_outputs()

    def launched(self, node):
        """The kernel of a launch, kernel[grid](...)."""
        place = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) else None
        return self.functions.get(getattr(place, "id", ""))

    def is_unread(self, node):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = called(value) in MADE_BY or dotted(getattr(value, "func", None))[0] == "extern_kernels"
            return (made or isinstance(value, ast.Name)) and not self.reads[node.targets[0].id]
        if not isinstance(node, ast.Expr) or not isinstance(value, ast.Call):
            return False
        if self.launched(value):
            return not stores(self.launched(value))
        out = next((k.value for k in value.keywords if k.arg == "out"), None)
        library = dotted(value.func)[0] == "extern_kernels"
        return library and isinstance(out, ast.Name) and self.is_own(out.id) and self.reads[out.id] == 1

    def is_own(self, name):
        """Memory that `call` takes itself, under the name that it has first."""
        values = [s.value for b in bodies_of(self.call) for s in b if isinstance(s, ast.Assign) and names(s) == [name]]
        return [called(value) for value in values] == ["empty_strided_cuda"]

    def drop_outputs(self):
        """The stores of a kernel to memory that nothing else has to do with."""
        launches = [node for node in calls(self.call) if self.launched(node)]
        times = collections.Counter(node.func.value.id for node in launches)
        for node in launches:
            function = self.launched(node)
            parameters = function.args.args[: len(node.args)]
            if times[function.name] > 1:
                continue
            for parameter, argument in list(zip(parameters, node.args)):
                name, stored = getattr(argument, "id", ""), WithoutStores(parameter.arg)
                if self.reads[name] == 1 and self.is_own(name) and stored.has_all_of(function):
                    stored.visit(function)
                    function.args.args.remove(parameter)
                    node.args.remove(argument)


def names(assignment):
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]


def prune(call, functions, returned):
    """`returned`: the places of what forward takes of the tuple that `call` returns."""
    for node in ast.walk(call):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            elements = node.value.elts
            elements[:] = [e if place in returned else ast.Constant(None) for place, e in enumerate(elements)]
    Pruned(call, functions)
