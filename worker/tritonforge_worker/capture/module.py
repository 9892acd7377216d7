"""The source of a problem with its forward exchanged: ModelNew has Model's constructor, and so its parameters, and what
no longer serves is gone."""

import ast
import itertools
import textwrap

from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from tritonforge_worker.capture.inductor import CannotCapture
from tritonforge_worker.capture.wrapper import Forward, kernels_of

MODEL, NEW = "Model", "ModelNew"
BODY, INDENT = "the_captured_lines", 8 * " "
OF_THE_PROBLEM = {"get_inputs", "get_init_inputs"}
LIBDEVICE = "from triton.language.extra import libdevice"


def path_of(model, target):
    """layers.0.weight as layers[0].weight: how the module itself would say it."""
    text, module = "self", model
    for part in target.split("."):
        if part.isidentifier():
            text, module = f"{text}.{part}", getattr(module, part)
        elif hasattr(module, "__getitem__") and part.isdigit():
            text, module = f"{text}[{int(part)}]", module[int(part)]
        else:
            text, module = f"getattr({text}, {part!r})", getattr(module, part)
    return text


def argument_names(forward):
    """The names of forward's arguments, without self."""
    arguments = forward.args
    if arguments.vararg or arguments.kwonlyargs or arguments.kwarg:
        raise CannotCapture("forward takes arguments by another way than by place")
    return [argument.arg for argument in arguments.posonlyargs + arguments.args][1:]


def bound(generated, forward):
    """Argument of the wrapper -> its text in forward."""
    inputs = [spec for spec in generated.inputs if spec.kind == InputKind.USER_INPUT]
    arguments = argument_names(forward)
    if len(inputs) > len(arguments):
        raise CannotCapture("an input holds several tensors")
    names = {spec.arg.name: name for spec, name in zip(inputs, arguments)}
    for spec in generated.inputs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            names[spec.arg.name] = path_of(generated.model, spec.target)
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            try:
                names[spec.arg.name] = path_of(generated.model, spec.target)
            except (AttributeError, IndexError):
                raise CannotCapture("forward makes a tensor of Python's numbers") from None
        elif spec.kind != InputKind.USER_INPUT:
            raise CannotCapture(f"an argument of kind {spec.kind.name}")
    return names


def device_of(generated, names):
    for spec in sorted(generated.inputs, key=lambda spec: spec.kind != InputKind.USER_INPUT):
        if spec.arg.name in generated.layouts:
            return f"{names[spec.arg.name]}.device"
    raise CannotCapture("the module has neither inputs nor parameters that are tensors")


def returned(outputs, leaves):
    """The text of forward's result."""
    return repr(pytree.tree_unflatten(list(map(Text, leaves)), outputs))


class Text(str):
    __slots__ = ()

    def __repr__(self):
        return str(self)


def free_names(node):
    """That the module has to bind: neither arguments nor variables of a function."""
    if isinstance(node, ast.Name):
        return {node.id}
    names = set().union(*map(free_names, ast.iter_child_nodes(node)))
    if isinstance(node, ast.FunctionDef):
        names -= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        names -= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def attributes(node):
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def bound_names(node):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def is_module(node):
    return isinstance(node, ast.ClassDef) and any("Module" in ast.unparse(base) for base in node.bases)


def without_forward(node):
    """A module's class with what its constructor needs: the rest was captured."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    kept = {"__init__"} & set(methods)
    while True:
        wanted = set().union(*(attributes(methods[name]) for name in kept))
        found = {name for name in methods if name in wanted and name != "forward"} | kept
        if found == kept:
            break
        kept = found
    dropped = [item for name, item in methods.items() if name not in kept]
    node.body = [item for item in node.body if item not in dropped and not is_text(item)] or [ast.Pass()]


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def kept_statements(tree, model):
    """Those of the module that ModelNew's constructor needs, in their order."""
    kept = {id(model)}
    statements = [node for node in tree.body if not is_text(node)]
    while True:
        wanted = set().union(*(free_names(node) for node in statements if id(node) in kept))
        wanted -= OF_THE_PROBLEM
        found = {id(node) for node in statements if bound_names(node) & wanted or is_setting(node)} | kept
        if found == kept:
            return [node for node in statements if id(node) in kept]
        kept = found


def is_setting(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


class Renamed(ast.NodeTransformer):
    def visit_Name(self, node):
        return ast.Name(NEW, node.ctx) if node.id == MODEL else node


def methods_of(model):
    return {item.name: item for item in model.body if isinstance(item, ast.FunctionDef)} if model else {}


def class_called(tree, name):
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


def solution(source, generated):
    """The text of a module with ModelNew."""
    tree, wrapper = ast.parse(source), ast.parse(generated.wrapper)
    model = class_called(tree, MODEL)
    forward = methods_of(model).get("forward")
    if not forward:
        raise CannotCapture("class Model with its forward is not written out at the top of the file")
    names = bound(generated, forward)
    lines = Forward(wrapper, kernels_of(wrapper), names, generated.layouts, device_of(generated, names))
    if not lines.kernels:
        raise CannotCapture("Inductor makes no kernel of it")
    result = returned(generated.outputs, map(lines.text, lines.returned))
    return with_forward(tree, model, [*lines.lines, f"return {result}"], lines.kernels.values())


def with_forward(tree, model, body, kernels):
    """The text of a module whose class `model`, which is ModelNew in it, has these lines as its forward."""
    forward = methods_of(model)["forward"]
    for node in tree.body:
        if is_module(node) or node is model:
            without_forward(node)
    forward.body = ast.parse(BODY).body
    forward.returns, forward.decorator_list = None, []
    for argument in forward.args.args:
        argument.annotation = None
    model.body = [item for item in model.body if not isinstance(item, ast.Pass)] + [forward]
    model.name = NEW
    kept = [Renamed().visit(node) for node in kept_statements(tree, model)]
    return assembled(kept, kernels).replace(BODY, textwrap.indent("\n".join(body), INDENT).lstrip())


def assembled(statements, kernels):
    imports = [node for node in statements if isinstance(node, (ast.Import, ast.ImportFrom))]
    others = [node for node in statements if node not in imports]
    head = ["import torch", *map(ast.unparse, imports), "import triton", "import triton.language as tl"]
    if any(kernel.libdevice for kernel in kernels):
        head.append(LIBDEVICE)
    helpers = {}
    for name, text in (item for kernel in kernels for item in kernel.helpers.items()):
        if helpers.setdefault(name, text) != text:
            raise CannotCapture(f"two kernels have functions of their own called {name}")
    parts = ["\n".join(dict.fromkeys(head)), *helpers.values(), *(kernel.text for kernel in kernels)]
    for lines, group in itertools.groupby(
        others, key=lambda node: not isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ):
        texts = [ast.unparse(ast.fix_missing_locations(node)) for node in group]
        parts += ["\n".join(texts)] if lines else texts
    return "\n\n\n".join(parts) + "\n"
