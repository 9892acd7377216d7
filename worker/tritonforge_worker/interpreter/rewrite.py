"""A kernel's Python function made fit to run as it is: its assignments, and what it sees for range, min and max."""

import ast
import inspect
import textwrap
import types

import triton.language as tl


class LoopIndex(int):
    """A loop variable: a Python int with what a kernel may ask of a tensor."""

    def __new__(cls, value, semantic):
        made = super().__new__(cls, value)
        made.semantic = semantic
        return made

    def to(self, dtype, **kwargs):
        return self.semantic.to_tensor(int(self)).to(dtype)

    @property
    def dtype(self):
        return tl.int32


def index_of(value):
    if isinstance(value, tl.tensor):
        return int(value.handle.data.item())
    return int(value.value) if isinstance(value, tl.constexpr) else int(value)


def pairwise(name):
    """min or max, which takes tensors too. The language's function is looked up at each call: it is patched by then."""
    builtin = {"min": min, "max": max}[name]

    def chosen(*args, **kwargs):
        if not kwargs and len(args) >= 2 and any(isinstance(arg, tl.tensor) for arg in args):
            out = args[0]
            for arg in args[1:]:
                out = getattr(tl, name + "imum")(out, arg)
            return out
        return builtin(*args, **kwargs)

    return chosen


class Rewriter(ast.NodeTransformer):
    """x = value makes a tensor of a number, as compiled code does."""

    def visit_Assign(self, node):
        self.generic_visit(node)
        node.value = ast.copy_location(
            ast.Call(func=ast.Name(id="__tritonforge_to_tensor", ctx=ast.Load()), args=[node.value], keywords=[]),
            node.value,
        )
        return node


def rewritten_code(function):
    """The code of a module that holds `function` alone, without decorators, at its own line numbers."""
    lines, first = inspect.getsourcelines(function)
    skip = next(i for i, line in enumerate(lines) if line.lstrip().startswith("def "))
    tree = ast.parse(textwrap.dedent("".join(lines[skip:])))
    tree.body[0].decorator_list = []
    tree.body[0].returns = None
    Rewriter().visit(tree)
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, first + skip - 1)
    return compile(tree, function.__code__.co_filename, "exec")


class Functions:
    """Interpreted forms of kernels and of the functions that they call.

    The code of each is kept for good; the function with its globals only until forget(), since those may change between
    launches.
    """

    def __init__(self, semantic):
        self.semantic = semantic
        self.replacements = {}  # id of a function of the language -> what stands in for it (patches.py)
        self.code, self.made = {}, {}
        self.min, self.max = pairwise("min"), pairwise("max")

    def forget(self):
        self.made.clear()

    def to_tensor(self, value):
        return value if isinstance(value, LoopIndex) else self.semantic.to_tensor(value, False)

    def range(self, *bounds, step=None, **options):
        bounds = [index_of(bound) for bound in bounds if bound is not None]
        if step is not None:
            bounds = [0, *bounds] if len(bounds) == 1 else bounds
            bounds.append(index_of(step))
        return (LoopIndex(i, self.semantic) for i in range(*bounds))

    def interpreted(self, function):
        """`function` with its assignments rewritten and the language's builtins replaced by interpreted ones."""
        made = self.made.get(function)
        if made is None:
            made = self.made[function] = self.make(function)
        return made

    def make(self, function):
        scope = dict(function.__globals__)
        if function.__closure__:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__):
                scope[name] = cell.cell_contents
        # Names imported one by one (from triton.language import load) are out of the patches' reach.
        for name, value in scope.items():
            replacement = self.replacements.get(id(value))
            if replacement is not None:
                scope[name] = replacement
        for name, value in (("range", self.range), ("min", self.min), ("max", self.max)):
            scope.setdefault(name, value)
        scope["__tritonforge_to_tensor"] = self.to_tensor
        code = self.code.get(function)
        if code is None:
            code = self.code[function] = rewritten_code(function)
        out = {}
        exec(code, scope, out)
        made = out[function.__name__]
        made = types.FunctionType(made.__code__, scope, made.__name__, function.__defaults__, made.__closure__)
        made.__kwdefaults__ = function.__kwdefaults__
        return made
