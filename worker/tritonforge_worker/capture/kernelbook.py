"""Role rewrite: a solution as KernelBook has it, as `data capture` would write it. What an older TorchInductor printed
stands there as functions: kernels, a `call` that launches them, and a class whose forward calls that. The text alone is
read; nothing of it is run."""

import ast
import builtins
import copy

from tritonforge_worker.capture.inductor import CannotCapture
from tritonforge_worker.capture.kernels import Written, dotted
from tritonforge_worker.capture.module import NEW, bound_names, class_called, methods_of, with_forward
from tritonforge_worker.capture.unread import prune
from tritonforge_worker.capture.wrapper import Forward


def function_called(tree, name):
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def calls_of(node):
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def is_jit(function):
    return [ast.unparse(decorator) for decorator in function.decorator_list] == ["triton.jit"]


def with_helpers(function, helpers):
    """Those that a function calls, and those that they call, each as a copy."""
    wanted, found = [function], {}
    while wanted:
        names = {n.id for n in ast.walk(wanted.pop()) if isinstance(n, ast.Name)}
        new = [helpers[name] for name in helpers if name in names and name not in found]
        found |= {helper.name: copy.deepcopy(helper) for helper in new}
        wanted += new
    return [found[name] for name in helpers if name in found]


def kernels_of(tree, call):
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    launches = [node.func.value for node in calls_of(call) if isinstance(node.func, ast.Subscript)]
    names = {ast.unparse(kernel) for kernel in launches}
    if any(dotted(node.func)[0] == "async_compile" for node in calls_of(tree)):
        raise CannotCapture("its kernels are texts for torch.compile's own run time")
    if not names:
        raise CannotCapture("it launches no kernel")
    for name in sorted(names):
        if name not in functions:
            raise CannotCapture(f"it launches a kernel that it does not have: {name}")
        if not is_jit(functions[name]):
            raise CannotCapture(f"a kernel has another decorator than triton.jit: {name}")
    helpers = {name: node for name, node in functions.items() if name not in names and is_jit(node)}
    return [Written(node, with_helpers(node, helpers)) for name, node in functions.items() if name in names]


def is_place(node):
    """A name, or something within what has one: self.layers[0].weight."""
    allowed = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)
    return all(isinstance(n, allowed) for n in ast.walk(node))


class Calling:
    """A forward that calls `call` and returns of what that gives."""

    def __init__(self, forward):
        self.places, self.given, self.output, self.result = {}, None, "", None
        for node in forward.body:
            if not self.understood(node):
                raise CannotCapture(f"forward does more than to call: {ast.unparse(node)[:80]}")
        if self.given is None or self.result is None:
            raise CannotCapture("forward does not call")

    def understood(self, node):
        if isinstance(node, ast.Return) and node.value and self.given is not None:
            self.result = node.value
            return True
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name) or self.given is not None:
            return False
        name, value = node.targets[0].id, node.value
        if is_place(value):
            self.places[name] = ast.unparse(value)
            return True
        arguments = value.args if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "call" else []
        if len(arguments) != 1 or not isinstance(arguments[0], ast.List) or not all(map(is_place, arguments[0].elts)):
            return False
        texts = map(ast.unparse, arguments[0].elts)
        self.output, self.given = name, [self.places.get(text, text) for text in texts]
        return True

    def names(self, call):
        """Argument of call -> its text in forward."""
        first = call.body[0] if call.body else None
        if not isinstance(first, ast.Assign) or not isinstance(first.targets[0], ast.Tuple):
            raise CannotCapture("call does not name its arguments")
        arguments = [target.id for target in first.targets[0].elts]
        if len(arguments) != len(self.given):
            raise CannotCapture("call is called with another number of arguments")
        return dict(zip(arguments, self.given))


def taken(calling):
    """The places of what forward takes of what `call` returns."""
    uses = [n for n in ast.walk(calling.result) if getattr(n, "id", "") == calling.output]
    places = [n.slice.value for n in ast.walk(calling.result) if is_place_of(n, calling.output)]
    if len(places) != len(uses):
        raise CannotCapture("forward takes what call returns in another way than by places")
    return places


def is_place_of(node, name):
    return (
        isinstance(node, ast.Subscript)
        and getattr(node.value, "id", "") == name
        and isinstance(getattr(node.slice, "value", None), int)
    )


class Results(ast.NodeTransformer):
    """What `call` returned, by its place, as the text that it has in forward."""

    def __init__(self, output, texts):
        self.output, self.texts = output, texts

    def visit_Subscript(self, node):
        if not is_place_of(node, self.output):
            return self.generic_visit(node)
        return ast.parse(self.texts[node.slice.value], mode="eval").body


def device_of(call, names, forward):
    """The text of a tensor's device: of an input, where one is a tensor."""
    tensors = [ast.unparse(n.args[0]) for n in calls_of(call) if getattr(n.func, "id", "") == "assert_size_stride"]
    texts = [names[name] for name in tensors if name in names]
    inputs = [argument.arg for argument in forward.args.args[1:]]
    for text in sorted(texts, key=lambda text: text not in inputs):
        return f"{text}.device"
    raise CannotCapture("none of its arguments is said to be a tensor")


def names_of(tree):
    """(those that a module binds anywhere, those that it reads)."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = set().union(*(bound_names(node) for node in ast.walk(tree)))
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return own | stored, {node.id for node in names if isinstance(node.ctx, ast.Load)}


def solution(source):
    """Raises CannotCapture where it has another form, and SyntaxError."""
    tree = ast.parse(source)
    call, model = function_called(tree, "call"), class_called(tree, NEW)
    if not call:
        raise CannotCapture("it has no function call")
    forward = methods_of(model).get("forward")
    if not forward:
        raise CannotCapture(f"it has no class {NEW} with a forward")
    calling = Calling(forward)
    names, places = calling.names(call), taken(calling)
    device = device_of(call, names, forward)
    prune(call, {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and is_jit(node)}, places)
    lines = Forward(tree, kernels_of(tree, call), names, {}, device)
    if not all(0 <= place < len(lines.returned) for place in places):
        raise CannotCapture("forward takes what call does not return")
    results = {place: lines.text(lines.returned[place]) for place in sorted(set(places))}
    result = ast.unparse(Results(calling.output, results).visit(calling.result))
    text = with_forward(tree, model, [*lines.lines, f"return {result}"], lines.kernels.values())
    own, read = names_of(ast.parse(text))
    missing = read - own - set(dir(builtins))
    if missing:
        raise CannotCapture(f"it needs a name that it does not have: {min(missing)}")
    return text


def why_not(error):
    """In one line; what is particular to the solution is behind a colon."""
    if isinstance(error, CannotCapture):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"it is no Python: {error}"
    if isinstance(error, (RecursionError, MemoryError)):
        return "it is nested too deeply"
    return f"it is not understood: {type(error).__name__}: {error}"


def serve(channel, sandbox):
    while True:
        request, _ = channel.receive()
        try:
            answer = {"solution": solution(request["solution"])}
        except Exception as error:
            answer = {"refused": why_not(error)[:300]}
        channel.send(answer)
