"""Smaller sizes for interpret mode: module-level integers of the problem are halved until its tensors fit a budget.

Sizes are tried on torch's meta device, where nothing is computed; a change that breaks the problem (a head count that
no longer divides a width) is not taken.
"""

import ast
import collections
import math
import operator
import sys
import typing

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tritonforge_worker import cuda_on_cpu
from tritonforge_worker.modules import run_source, set_seed, tensors_in
from tritonforge_worker.protocol import Encoder, Forms, forms_of


class OnMeta(cuda_on_cpu.CudaOnCpu):
    """Factories make meta tensors, so that the cost of huge sizes is only counted."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in FACTORIES:
            kwargs = dict(kwargs or {}, device="meta")
            kwargs.pop("pin_memory", None)
            return func(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)


FACTORIES = {
    torch.rand,
    torch.randn,
    torch.randint,
    torch.zeros,
    torch.ones,
    torch.empty,
    torch.full,
    torch.arange,
    torch.linspace,
    torch.eye,
    torch.randperm,
    torch.empty_strided,
    torch.normal,
    torch.tensor,
    torch.bernoulli,
}


LARGE = 16  # from here on a size is one of many places, and no count of layers, heads or taps

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def integer_of(node):
    """The value of an integer written out, as 4096 or 4096 * 4; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        left, right = integer_of(node.left), integer_of(node.right)
        if left is None or right is None or (right == 0 and isinstance(node.op, ast.FloorDiv)):
            return None
        return OPERATIONS[type(node.op)](left, right)
    return None


def assignments(tree):
    """(target, value) of those at module level; `a, b = 1, 2` are two, and `a = b = 1` is one, a's."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
        yield from zip(target.elts, value.elts) if both else [(target, value)]


def constants(tree):
    """name -> (value, its node) of module-level integer assignments, also of several names at once; "name[i]" for those
    within a tuple or list."""
    found = {}
    for target, given in assignments(tree):
        if not isinstance(target, ast.Name):
            continue
        name, parts = target.id, {"": given}
        if isinstance(given, (ast.Tuple, ast.List)):
            parts = {f"[{index}]": part for index, part in enumerate(given.elts)}
        for place, part in parts.items():
            value = integer_of(part)
            if value is not None and value > 1:
                found[name + place] = (value, part)
    return found


def rewritten(source, sizes):
    """`source` with the module-level integers of `sizes` {name: [old, new]} replaced where they have the old value."""
    if not sizes:
        return source
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    lines = source.splitlines(keepends=True)
    # From the end on: what stands before in the same line keeps its place.
    places = sorted(constants(tree).items(), key=lambda item: (item[1][1].lineno, item[1][1].col_offset), reverse=True)
    for name, (value, node) in places:
        if name in sizes and sizes[name][0] == value and node.lineno == node.end_lineno:
            line = lines[node.lineno - 1].encode()
            new = line[: node.col_offset] + str(sizes[name][1]).encode() + line[node.end_col_offset :]
            lines[node.lineno - 1] = new.decode()
    return "".join(lines)


class Shapes(TorchDispatchMode):
    """What a forward makes, by the line of the problem and the operation: {(line, operation): [shape]}, and what the
    taps of its filters see."""

    def __init__(self, file):
        super().__init__()
        self.file, self.made = file, collections.defaultdict(list)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        # A convolution of an input that is smaller than its kernel fails on every device but the meta one.
        if func is torch.ops.aten.convolution.default and args[0].numel() and not out.numel():
            raise ValueError("a convolution's input is smaller than its kernel")
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        line = frame and frame.f_lineno
        self.made[line, func].extend(tuple(t.shape) for t in tensors_in(out))
        if func is torch.ops.aten.convolution.default:
            self.made[line, "taps"].extend(places_of_taps(out, *args))
        return out


def places_of_taps(out, x, weight, _, strides, paddings, dilations, transposed, *__):
    """[how many places each tap of a filter sees, along one dimension], without padding."""
    start, to = (x, out) if transposed else (out, x)
    for dim, (s, p, d) in enumerate(zip(strides, paddings, dilations), start=2):
        firsts = [p - d * tap for tap in range(weight.shape[dim])]
        yield [max(0, min(start.shape[dim] - 1, (to.shape[dim] - 1 + f) // s) - max(0, -(-f // s)) + 1) for f in firsts]


def keeps(made, whole, parts):
    """Whether what is made of smaller sizes still has `parts` of whatever has as many at the sizes as written: places
    along each dimension, and rounds of a loop. With one block a row what it takes over from those before is nowhere
    seen, with two what these took over themselves, with one place an image all of a filter but its middle."""
    for place, shapes in whole.items():
        smaller = made.get(place, [])
        if len(smaller) < min(len(shapes), parts):
            return False
        # The rounds that are left are some of a loop's; of shapes that differ from round to round the largest counts.
        pairs = zip(smaller, shapes) if len(smaller) == len(shapes) else [(largest(smaller), largest(shapes))]
        if any(a < min(b, parts) for small, large in pairs for a, b in zip(small, large)):
            return False
    return True


def largest(shapes):
    return [max(sizes) for sizes in zip(*shapes)]


def half(size):
    """A large odd one stays odd, or a kernel without masks would be right."""
    return size // 2 | (size & 1 if size >= LARGE else 0)


class Cost(typing.NamedTuple):
    """Of one forward."""

    spent: tuple  # (elements of inputs, weights and outputs, floating-point operations)
    made: dict  # Shapes.made
    outputs: dict | None  # forms_of() what it returns


def cost(source, folder, budget):
    """Of a recurrence whose inputs and weights alone are more than the budget Cost((those, infinity), {}, None): nobody
    waits for its many steps to be counted."""
    with OnMeta():
        module = run_source(source, "sizing", folder)
        set_seed(0)
        init = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
        inputs = module.get_inputs()
        elements = sum(t.numel() for t in tensors_in(inputs))
        model = module.Model(*init)
        elements += sum(t.numel() for t in model.state_dict().values())
        if elements > 1 << 40:
            return Cost((elements, 0), {}, None)
        if elements > budget["elements"] and any(isinstance(m, torch.nn.RNNBase) for m in model.modules()):
            return Cost((elements, math.inf), {}, None)
        with torch.no_grad(), Shapes(module.__file__) as shapes, FlopCounterMode(display=False) as counter:
            outputs = model(*[x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs])
        elements += sum(t.numel() for t in tensors_in(outputs))
        return Cost((elements, counter.get_total_flops()), shapes.made, forms_of(outputs))


def reduced(source, budget, folder):
    """(source, {name: [old, new]}, the outputs' forms as it stands) within the budget {"elements", "flops"}, or as near
    as halving takes it: where weights alone are more, images of a pixel would make them no fewer."""
    found = constants(ast.parse(source))
    if not found:
        return source, {}, None
    try:
        now, whole, outputs = cost(source, folder, budget)
    except BaseException:
        return source, {}, None  # what cannot be sized is run as it is; its real fault shows there

    limits = budget["elements"], budget["flops"]
    sizes = {name: [value, value] for name, (value, _) in found.items()}

    def halved(names):
        """The sizes with these names' halved, their cost, and what is made of them; None where the problem breaks or is
        hardly cheaper."""
        trial = {n: [old, half(new) if n in names else new] for n, (old, new) in sizes.items()}
        try:
            then, made, _ = cost(rewritten(source, trial), folder, budget)
        except BaseException:
            return None
        helps = any(was > limit and is_ <= was * 7 / 8 for was, is_, limit in zip(now, then, limits))
        return (trial, then, made) if helps else None

    def meets(name, staying):
        """Halved, it would be no larger than one that is smaller: a row of several blocks would be one block."""
        old, new = sizes[name]
        return any(sizes[n][0] < old and half(new) <= sizes[n][1] < new for n in staying)

    def in_proportion():
        """The large ones that can be halved together without meeting any that stays."""
        names = [n for n in sizes if sizes[n][1] >= LARGE]
        while meeting := [n for n in names if meets(n, sizes.keys() - names)]:
            names = [n for n in names if n not in meeting]
        return names

    def next_of(names):
        """The largest; of large ones, one that meets none, or else what was the largest."""
        large = [n for n in names if sizes[n][1] >= LARGE]
        free = [n for n in large if not meets(n, sizes)]
        return max(free or large or names, key=lambda n: sizes[n][0 if large and not free else 1])

    # All large ones together first: what is in proportion (channels and groups, width and heads) stays so. Then one by
    # one. What leaves fewer parts is taken only where nothing else is left.
    stuck = set()
    for parts in (3, 2, 1, 0):
        fewer = set()
        while now[0] > limits[0] or now[1] > limits[1]:
            names = [] if stuck or fewer else in_proportion()
            step = halved(names) if names else None
            if step is None or not keeps(step[2], whole, parts):
                names = [n for n in sizes if n not in stuck | fewer and sizes[n][1] >= 4]
                if not names:
                    break
                next_one = next_of(names)
                step = halved([next_one])
                if step is None:
                    stuck.add(next_one)
                    continue
                if not keeps(step[2], whole, parts):
                    fewer.add(next_one)
                    continue
            sizes, now, _ = step
    changed = {n: v for n, v in sizes.items() if v[0] != v[1]}
    return rewritten(source, changed), changed, outputs


def forms(source, folder, outputs):
    """{"init", "inputs", "tensors", "outputs"}: init arguments, inputs without their data, and the given outputs, at
    the sizes as they are written. None where that cannot be told on the meta device."""
    init, inputs = Encoder(), Forms()
    try:
        with OnMeta():
            module = run_source(source, "sizing", folder)
            set_seed(0)
            arguments = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
            return {
                "init": init.value(list(arguments)),
                "inputs": inputs.value(list(module.get_inputs())),
                "tensors": inputs.tensors,
                "outputs": outputs,
            }
    except BaseException:  # an init argument with data among them
        return None


def warm_up():
    """First use of the meta device imports much of torch's decompositions; children inherit them."""
    with OnMeta(), torch.no_grad(), FlopCounterMode(display=False):
        x = torch.rand(4, 8)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8))
        torch.softmax(model(x), dim=-1).sum()
        torch.nn.Conv2d(3, 4, 3)(torch.rand(1, 3, 8, 8))
