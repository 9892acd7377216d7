"""The function in which Inductor launches its kernels, as lines of a module's forward: torch's public calls, and none
of its bookkeeping."""

import ast

from tritonforge_worker.capture.inductor import CannotCapture
from tritonforge_worker.capture.kernels import Tuned, dotted
from tritonforge_worker.capture.layouts import is_contiguous, reinterpreted, tuple_text

EMPTY = {"empty_strided_cuda", "empty_strided"}
BOOKKEEPING = ("torch.cuda.set_device", "args.clear", "get_raw_stream")
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "bias_addmm"}
NEUTRAL = {"alpha": 1, "beta": 1}


def body_of(tree):
    """The statements of call(args), those within its device guard among them."""
    (call,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "call")
    for node in call.body:
        if isinstance(node, ast.With):
            yield from node.body
        else:
            yield node


def kernels_of(tree):
    for node in tree.body:
        called = node.value.func if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        place, name = dotted(called)
        if place != "async_compile":
            continue
        if name != "triton":
            raise CannotCapture(f"Inductor makes code for another device ({name})")
        yield Tuned(node.value.args[1].value)


def numbers(node):
    """A size or a stride."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise CannotCapture(f"a size is no number: {ast.unparse(node)[:80]}") from None


class Forward(ast.NodeTransformer):
    def __init__(self, tree, kernels, names, layouts, device):
        """`tree`: the wrapper; `names`: argument of its call -> its text in forward; `layouts`: argument -> (size,
        stride); `device`: the text of the tensors' device."""
        self.kernels = {kernel.name: kernel for kernel in kernels}
        self.names, self.device, self.lines, self.returned = dict(names), device, [], []
        self.layouts = dict(layouts)
        self.unused = {}  # buffer -> its allocation, until something else than a product fills it
        for statement in body_of(tree):
            self.statement(statement)

    # What a line of the wrapper becomes.

    def statement(self, node):
        if isinstance(node, ast.Return):
            self.returned = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        elif isinstance(node, ast.Assign):
            self.assign(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.call(node.value)
        elif not isinstance(node, (ast.Delete, ast.Pass)):
            raise CannotCapture(f"the wrapper has a line of another kind: {ast.unparse(node)[:120]}")

    def assign(self, node):
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) or "get_raw_stream" in ast.unparse(value):
            return  # the arguments, a stream
        name = target.id
        if isinstance(value, ast.Name):  # a buffer's memory is used again
            self.rename(name, self.text(value), self.layout(value))
            return
        if isinstance(value, ast.Call):
            called = getattr(value.func, "id", "")
            if called in EMPTY:
                self.allocate(name, *map(numbers, value.args[:2]), ast.unparse(value.args[2]))
                return
            if called == "reinterpret_tensor":
                self.rename(name, self.text(value), self.layout(value))
                return
        self.names[name] = name
        self.lines.append(f"{name} = {self.text(value)}")

    def rename(self, name, text, layout):
        if text.isidentifier():
            self.names[name] = text
        else:
            self.names[name] = name
            self.lines.append(f"{name} = {text}")
        self.layouts[name] = layout

    def allocate(self, name, size, stride, dtype):
        self.names[name], self.layouts[name] = name, (size, stride)
        form = "empty" if is_contiguous(size, stride) else "empty_strided"
        strides = "" if form == "empty" else f", {tuple_text(stride)}"
        self.unused[name] = f"torch.{form}({tuple_text(size)}{strides}, device={self.device}, dtype={dtype})"

    def filled(self, name):
        """The buffer's memory is made before something else than a product is written to it."""
        if name in self.unused:
            self.lines.append(f"{name} = {self.unused.pop(name)}")

    def call(self, node):
        place, _ = dotted(node.func)
        if ast.unparse(node.func).startswith(BOOKKEEPING):
            return
        if getattr(node.func, "id", "") == "assert_size_stride":
            self.layouts[ast.unparse(node.args[0])] = tuple(map(numbers, node.args[1:3]))
            return
        kernel = self.launched(node)
        if kernel:
            self.lines.append(kernel.launch(node, self.text))
            return
        out = next((k.value for k in node.keywords if k.arg == "out"), None)
        if place == "extern_kernels" and isinstance(out, ast.Name) and self.fits(self.names.get(out.id)):
            node.keywords = [k for k in node.keywords if k.arg != "out"]
            buffer = self.names[out.id]
            del self.unused[buffer]
            self.lines.append(f"{buffer} = {self.text(node)}")
            return
        self.lines.append(self.text(node))

    def launched(self, node):
        """The kernel that a call launches, kernel.run(...) or kernel[grid](...); None where it launches none."""
        place, name = dotted(node.func)
        if isinstance(node.func, ast.Subscript):
            place, name = getattr(node.func.value, "id", ""), "run"
        return self.kernels.get(place) if name == "run" else None

    def fits(self, buffer):
        """Whether a product's own result has the layout of the memory that waits for it."""
        return buffer in self.unused and is_contiguous(*self.layouts[buffer])

    # What an expression of the wrapper becomes.

    def text(self, node):
        return ast.unparse(self.visit(node))

    def layout(self, node):
        """(size, stride) of a buffer or of a part of one; None where it is not known."""
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "reinterpret_tensor":
            return tuple(map(numbers, node.args[1:3]))
        return self.layouts.get(getattr(node, "id", None))

    def visit_Name(self, node):
        if node.id not in self.names:
            return node
        text = self.names[node.id]
        self.filled(text)
        return ast.parse(text, mode="eval").body

    def visit_Attribute(self, node):
        text = ast.unparse(node)
        if text.startswith(("torch.ops.aten.", "aten.")):
            parts = text.removeprefix("torch.ops.").split(".")
            return ast.parse(f"torch.ops.{'.'.join(parts)}", mode="eval").body
        return self.generic_visit(node)

    def visit_Call(self, node):
        place, name = dotted(node.func)
        called = getattr(node.func, "id", "")
        if called == "reinterpret_tensor":
            size, stride, offset = map(numbers, node.args[1:4])
            if offset and self.layout(node.args[0]) is None:
                raise CannotCapture("a part of a tensor whose place is not known")
            text = reinterpreted(self.text(node.args[0]), self.layout(node.args[0]), size, stride, offset)
            return ast.parse(text, mode="eval").body
        if called == "device":
            return ast.parse(self.device, mode="eval").body
        self.generic_visit(node)
        if place != "extern_kernels":
            return node
        if name == "convolution":
            return convolution(node)
        if name not in PRODUCTS:
            raise CannotCapture(f"Inductor calls {name} of its own library")
        node.func = ast.parse(f"torch.{name.removeprefix('bias_')}", mode="eval").body
        node.keywords = [k for k in node.keywords if not is_neutral(k)]
        return node


def is_neutral(keyword):
    return isinstance(keyword.value, ast.Constant) and NEUTRAL.get(keyword.arg) == keyword.value.value


def convolution(node):
    """aten's convolution by the name that it has in torch.nn.functional."""
    given = {k.arg: k.value for k in node.keywords}
    transposed = ast.literal_eval(given["transposed"])
    dimensions = len(ast.literal_eval(given["stride"]))
    order = ["bias", "stride", "padding"]
    order += ["output_padding", "groups", "dilation"] if transposed else ["dilation", "groups"]
    name = f"conv_transpose{dimensions}d" if transposed else f"conv{dimensions}d"
    arguments = ", ".join(ast.unparse(argument) for argument in node.args[:2])
    options = ", ".join(f"{key}={ast.unparse(given[key])}" for key in order if not is_default(key, given[key]))
    text = f"torch.nn.functional.{name}({arguments}{', ' + options if options else ''})"
    return ast.parse(text, mode="eval").body


DEFAULTS = {"bias": {None}, "stride": {1}, "padding": {0}, "output_padding": {0}, "groups": {1}, "dilation": {1}}


def is_default(key, node):
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return False
    values = set(value) if isinstance(value, (tuple, list)) else {value}
    return values <= DEFAULTS[key]
