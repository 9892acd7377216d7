"""Inductor's kernels as a person would write them: no heuristics around them, sizes where they are used, Triton's own
functions, and the helpers of Inductor's library beside them."""

import ast
import math
from unittest import mock

import triton
import triton.language as tl
from torch._inductor.runtime import hints, triton_helpers, triton_heuristics

from tritonforge_worker.capture.cleaning import decide_branches, drop_unread, names_read, without_docstring
from tritonforge_worker.capture.inductor import CannotCapture

# That Triton has itself, with the same values for all arguments.
IN_TRITON = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "abs", "floor", "ceil", "fma"}
WIDTH = 100
JIT = "@triton.jit\n"
# In the place of Inductor's: Triton's maximum can hand NaN on itself, and NaN needs no question whether values are
# floating, which no other value is unequal to itself for.
NAN = "propagate_nan=tl.PropagateNan.ALL"
EXTREMES = {"maximum": ">", "minimum": "<"}
OWN = {name: f"def {name}(a, b):\n    return tl.{name}(a, b, {NAN})" for name in EXTREMES}
WITH_INDEX = """
def {}_with_index(a_value, a_index, b_value, b_index):
    mask = (a_value {} b_value) | (a_value != a_value) & (b_value == b_value)
    equal = (a_value == b_value) | (a_value != a_value) & (b_value != b_value)
    mask |= equal & (a_index < b_index)
    return tl.where(mask, a_value, b_value), tl.where(mask, a_index, b_index)
"""
OWN |= {f"{name}_with_index": WITH_INDEX.format(name, sign) for name, sign in EXTREMES.items()}


def dotted(node):
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return "", ""


class Plain(ast.NodeTransformer):
    """Triton's names in the place of Inductor's; `helpers`: functions of Inductor's library that are left, `libdevice`:
    whether a function of that is."""

    def __init__(self):
        self.helpers, self.libdevice = {}, False

    def helper(self, name):
        function = getattr(triton_helpers, name, None)
        if not isinstance(function, triton.runtime.jit.JITFunction):
            raise CannotCapture(f"a kernel needs triton_helpers.{name}")
        if name not in self.helpers:
            definition = ast.parse(OWN.get(name, function.src)).body[0]
            self.helpers[name] = JIT + ast.unparse(self.generic_visit(without_docstring(definition)))
        return ast.Name(name, ast.Load())

    def visit_Call(self, node):
        place, name = dotted(node.func)
        called = name if place == "triton_helpers" else getattr(node.func, "id", "")
        if called not in EXTREMES:
            return self.generic_visit(node)
        arguments = ", ".join(ast.unparse(self.visit(argument)) for argument in node.args)
        return ast.parse(f"tl.{called}({arguments}, {NAN})", mode="eval").body

    def visit_Attribute(self, node):
        place, name = dotted(node)
        if place == "triton_helpers":
            return self.helper(name)
        if (place in ("tl_math", "math") and hasattr(tl.math, name)) or (place == "libdevice" and name in IN_TRITON):
            node.value.id = "tl"
        elif place == "libdevice":
            self.libdevice = True
        return self.generic_visit(node)

    def visit_Name(self, node):
        known = getattr(triton_helpers, node.id, None)
        if isinstance(known, tl.constexpr):
            return ast.Constant(known.value)
        return self.helper(node.id) if isinstance(known, triton.runtime.jit.JITFunction) else node

    def visit_Subscript(self, node):
        self.generic_visit(node)
        whole = isinstance(node.slice, ast.Slice) and not (node.slice.lower or node.slice.upper or node.slice.step)
        return node.value if whole else node


def grid_text(texts):
    texts = list(texts)
    while len(texts) > 1 and texts[-1] == "1":
        texts.pop()
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


class Kernel:
    """A kernel's text, and the texts of its launches."""

    def __init__(self, function, blocks, combines=()):
        """`blocks`: its parameters that a launch says by name; `combines`: functions that it calls."""
        self.name = function.name
        self.parameters = [argument.arg for argument in function.args.args if argument.arg not in blocks]
        # Inductor sets the sizes in the kernel, whatever is passed for them.
        self.sizes = {}
        for node in function.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                self.sizes |= {target.id: node.value.value for target in node.targets if target.id in self.parameters}
        function.decorator_list = []
        plain = Plain()
        for combine in combines:  # what a scan of the kernel's own puts together by
            combine.decorator_list = []
            plain.helpers[combine.name] = JIT + ast.unparse(ast.fix_missing_locations(plain.visit(combine)))
        plain.visit(function)
        decide_branches(function)
        drop_unread(function)
        read = names_read(function)
        self.left_out = {p for p in self.parameters if p in self.sizes or (p.endswith("numel") and p not in read)}
        function.args.args = [argument for argument in function.args.args if argument.arg not in self.left_out]
        self.helpers, self.libdevice = plain.helpers, plain.libdevice
        self.text = JIT + ast.unparse(ast.fix_missing_locations(function))

    def launched(self, arguments, grid, options):
        """The text of a launch with these texts for all of Inductor's arguments; `options`: what it says by name."""
        if len(arguments) != len(self.parameters):
            raise CannotCapture(f"a kernel is launched with another number of arguments: {self.name}")
        given = [text for name, text in zip(self.parameters, arguments) if name not in self.left_out]
        options = ", ".join(f"{name}={value}" for name, value in options.items())
        start, given = f"{self.name}[{grid_text(grid)}](", ", ".join(given)
        short = f"{start}{given}, {options})"
        return short if len(short) <= WIDTH else f"{start}\n    {given},\n    {options},\n)"


class Tuned(Kernel):
    """With Inductor's heuristics around it, of which the configuration that they try first is taken."""

    def __init__(self, source):
        """`source`: the text that Inductor's wrapper hands to its compiler."""
        *combines, function = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
        self.config, self.meta = self.first_config(function.decorator_list[0])
        parameters = {argument.arg for argument in function.args.args}
        self.blocks = {name: value for name, value in self.config.kwargs.items() if name in parameters}
        self.grid_arguments = len(self.meta.get("extra_launcher_args", ()))  # of a template, behind the others
        super().__init__(function, self.blocks, combines)

    @staticmethod
    def first_config(decorator):
        """(the configuration that Inductor's heuristics try first, its notes on the kernel)."""
        found = []

        def cached_autotune(size_hints, configs, *args, inductor_meta=None, **kwargs):
            found.append((configs[0], inductor_meta))

        scope = {**vars(hints), "triton_heuristics": triton_heuristics, "__file__": ""}
        with mock.patch.object(triton_heuristics, "cached_autotune", cached_autotune):
            eval(compile(ast.Expression(decorator), "decorator", "eval"), scope)
        return found[0]

    def grid(self):
        scope = {**self.sizes, **self.blocks}
        expression = triton_heuristics.GridExpr.from_meta(self.meta, self.config)
        numbers = expression.eval_slow({**self.config.kwargs, **self.sizes})
        texts = []
        for number, axis in zip(numbers, "xyz"):
            size, block = scope.get(f"{axis}numel"), scope.get(f"{axis.upper()}BLOCK", 1)
            quotient = size is not None and block > 1 and math.ceil(size / block) == number
            texts.append(f"triton.cdiv({size}, {block})" if quotient else str(number))
        return texts

    def launch(self, node, text):
        """The text of a launch, kernel.run(...); `text`: of an argument of the wrapper."""
        arguments = [text(argument) for argument in node.args]
        count = len(arguments) - self.grid_arguments
        options = {**self.blocks, "num_warps": self.config.num_warps, "num_stages": self.config.num_stages}
        return self.launched(arguments[:count], arguments[count:] or self.grid(), options)


class Written(Kernel):
    """A function that stands for itself: launches say its blocks."""

    def __init__(self, function, combines=()):
        constants = [a.arg for a in function.args.args if a.annotation and "constexpr" in ast.unparse(a.annotation)]
        super().__init__(function, constants, combines)

    def launch(self, node, text):
        """The text of a launch, kernel[grid](...); `text`: of an argument of the wrapper."""
        options = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg != "stream"}
        if None in options:
            raise CannotCapture("a launch's options are not written out")
        arguments = [text(argument) for argument in node.args]
        return self.launched(arguments, grid_of(node.func.slice, text, options), options)


def grid_of(node, text, options):
    """The sizes of a launch's grid, from x: given, or of Inductor's grid(...), which has the outermost size first."""
    if isinstance(node, ast.Tuple):
        return [text(size) for size in node.elts]
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "grid" or not 1 <= len(node.args) <= 3:
        raise CannotCapture(f"a grid that is not understood: {ast.unparse(node)[:80]}")
    blocks = [options.get(f"{axis}BLOCK", "1") for axis in "XYZ"]
    sizes = [text(size) for size in reversed(node.args)]
    return [size if block == "1" else f"triton.cdiv({size}, {block})" for size, block in zip(sizes, blocks)]
