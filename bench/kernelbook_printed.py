"""Rows in KernelBook's own form: modules that are made up here, and for each what TorchInductor prints, written as
KernelBook has it. Its rows are of PyTorch 2.5, whose words are put in the place of today's: `grid`, launches with their
blocks, `rnumel` and RBLOCK, statements whose results nobody reads, tensors that only a backward would read. Needs the
project's Python (requirements/install --python); nothing of KernelBook is in it. bench/kernelbook_like.py writes them
to a file."""

import ast
import linecache
import pathlib
import re
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "worker"))
from torch.export.graph_signature import InputKind

from tritonforge_worker import frontend
from tritonforge_worker.capture import inductor, module
from tritonforge_worker.capture.cleaning import names_read
from tritonforge_worker.capture.kernels import Tuned
from tritonforge_worker.capture.layouts import tuple_text
from tritonforge_worker.modules import run_source

# What the cells of this table are, a "|" between them: constructor's parameters; get_init_inputs; the constructor's
# body; forward's parameters; forward's body; inputs. Sizes are KernelBook's: fours, mostly.
MODULES = """
self|[[], {}]|pass|x|return F.{a}(x) * {n} + F.{b}(x)|[4, 4, 4, 4]
self, weight=1.0|[[], {}]|self.weight = weight|x, y|d = (x - y) ** 2;return (d * self.weight).mean()|[4, 4, 4, 4];\
[4, 4, 4, 4]
self, dim|[[], {'dim': {n}}]|self.fc = nn.Linear(4, dim)|x|return F.{a}(self.fc(x))|[4, 4, 4, 4]
self, d_in, d_out, *, bias=True|[[], {'d_in': 4, 'd_out': {n}, 'bias': False}]|self.fc = nn.Linear(d_in, d_out, \
bias=bias)|x|return F.{a}(self.fc(x)) / 2|[4, 4]
self, inp, hidden|[[], {'inp': 4, 'hidden': {n}}]|self.one = nn.Linear(inp, hidden);self.two = nn.Linear(hidden, \
inp)|x|return self.two(F.{a}(self.one(x)))|[4, 4, 4, 4]
self, channels|[[], {'channels': 4}]|self.conv = nn.Conv2d(channels, {n}, 3, padding=1)|x|return F.{a}(self.conv(x))|\
[4, 4, 8, 8]
self, channels=4|[[], {}]|self.norm = nn.BatchNorm2d(channels).eval()|x|return F.{a}(self.norm(x))|[4, 4, 8, 8]
self, size, eps=1e-05|[[], {'size': 4}]|self.gamma = nn.Parameter(torch.ones(size));self.beta = \
nn.Parameter(torch.zeros(size));self.eps = eps|x|m = x.mean(-1, keepdim=True);s = x.std(-1, keepdim=True);return \
self.gamma * (x - m) / (s + self.eps) + self.beta|[4, 4, 4, 4]
self|[[], {}]|pass|q, k, v|s = torch.matmul(q, k.transpose(-2, -1)) / {n};return torch.matmul(F.softmax(s, dim=-1), \
v)|[4, 4, 4];[4, 4, 4];[4, 4, 4]
self, config|[[], {'config': _mock_config(hidden_size=4, layer_norm_eps=1)}]|self.dense = \
nn.Linear(config.hidden_size, config.hidden_size);self.norm = nn.LayerNorm(config.hidden_size, \
eps=config.layer_norm_eps)|x, y|return self.norm(self.dense(x) + y)|[4, 4, 4, 4];[4, 4, 4, 4]
self, config|[[], {'config': _mock_config(d_z={n})}]|self.fc = nn.Linear(4, config.d_z)|x|return \
torch.tanh(F.{a}(self.fc(x)))|[4, 4]
self, k=2|[[], {'k': 2}]|self.pool = nn.AvgPool2d(k)|x|return F.{a}(self.pool(x)) * {n}|[4, 4, 8, 8]
self|[[], {}]|pass|x|return F.max_pool2d(F.{a}(x), 2)|[4, 4, 8, 8]
self|[[], {}]|pass|x, y|return torch.cat([F.{a}(x), y * {n}], dim=1)|[4, 4, 4, 4];[4, 4, 4, 4]
self|[[], {}]|pass|x|return F.log_softmax(x * {n}, dim=1)|[4, 4, 4, 4]
self|[[], {}]|pass|x|return F.pad(F.{a}(x), (1, 2, 1, 1), value={n}.0)|[4, 4, 4, 4]
self|[[], {}]|pass|x|return torch.cumsum(F.{a}(x), dim=-1)|[4, 4, 64]
self, p={n}|[[], {}]|self.p = p|x|return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12) * self.p|[4, 4, 4, 4]
self|[[], {}]|pass|x, y|i = (x * y).sum(dim=(1, 2, 3));u = x.sum(dim=(1, 2, 3)) + y.sum(dim=(1, 2, 3));return 1 - \
((2 * i + {n}) / (u + {n})).mean()|[4, 4, 4, 4];[4, 4, 4, 4]
self, n, dim|[[], {'n': 10, 'dim': 4}]|self.table = nn.Parameter(torch.rand(n, dim))|x|return F.{a}(x) @ \
self.table.t() * {n}|[4, 4, 4, 4]
self|[[], {}]|pass|x|return F.{a}(x).mean(dim=[2, 3]), x.amax(dim=1) * {n}|[4, 4, 8, 8]
self, inp|[[], {'inp': 4}]|self.layers = nn.Sequential(nn.Linear(inp, {n}), nn.ReLU(), nn.Linear({n}, 1))|x|return \
torch.sigmoid(self.layers(x))|[4, 4, 4, 4]
self|[[], {}]|pass|x|return x.transpose(1, 2).contiguous() * F.{a}(x.transpose(1, 2))|[4, 16, 32]
self, channels|[[], {'channels': 4}]|self.one = nn.Conv2d(channels, channels, 1);self.two = nn.Conv2d(channels, \
channels, 3, padding=1)|x|return x + self.two(F.relu(self.one(F.relu(x))))|[4, 4, 8, 8]
self, dim|[[], {'dim': 4}]|self.query = nn.Linear(dim, dim);self.key = nn.Linear(dim, dim);self.value = \
nn.Linear(dim, dim)|x|s = self.query(x) @ self.key(x).transpose(1, 2);return F.softmax(s / {n}, dim=-1) @ \
self.value(x)|[4, 4, 4]
"""
frontend.install_driver()  # Inductor asks Triton for one; no machine is needed
FUNCTIONS = ["relu", "sigmoid", "tanh", "gelu", "silu", "softplus", "elu", "selu", "mish", "hardswish", "leaky_relu"]
WORDS = ["Residual", "Gated", "Soft", "Scaled", "Cross", "Dual", "Local", "Masked", "Mean", "Norm"]
KINDS = [line.split("|") for line in MODULES.strip().splitlines()]
HEADER = """import torch
from torch._inductor.select_algorithm import extern_kernels
import triton
import triton.language as tl
from torch._inductor.runtime.triton_heuristics import grid
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
import torch.nn as nn
import torch.nn.functional as F
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
"""


def problem_of(draw, number):
    """(source of a module and its inputs, its class)."""
    constructor, init, made, forward, body, inputs = KINDS[number % len(KINDS)]
    name = f"{draw.choice(WORDS)}{draw.choice(WORDS)}{number}"
    filled = {"{a}": draw.choice(FUNCTIONS), "{b}": draw.choice(FUNCTIONS), "{n}": str(draw.randint(2, 9))}
    indent = "\n        "
    text = "from _paritybench_helpers import _mock_config\n" if "_mock_config" in init else ""
    text += "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
    text += f"class {name}(nn.Module):\n\n    def __init__({constructor}):{indent}"
    text += f"super({name}, self).__init__(){indent}{made.replace(';', indent)}\n\n"
    text += f"    def forward(self, {forward}):{indent}{body.replace(';', indent)}\n\n\n"
    tensors = ", ".join(f"torch.rand({shape})" for shape in inputs.split(";"))
    text += f"def get_inputs():\n    return [{tensors}]\n\n\ndef get_init_inputs():\n    return {init}\n"
    for place, value in filled.items():
        text = text.replace(place, value)
    return text, name


class Config(dict):
    __getattr__ = dict.__getitem__


def loaded(source, entry, folder):
    """As `data capture` has a problem."""
    sys.modules["_paritybench_helpers"] = types.SimpleNamespace(_mock_config=Config)
    made = run_source(source, "problem", folder)
    positional, by_name = made.get_init_inputs()
    return types.SimpleNamespace(Model=lambda: vars(made)[entry](*positional, **by_name), get_inputs=made.get_inputs)


class Unused(ast.NodeTransformer):
    """Of an assignment that nothing reads its value is left, where that is a call; none is of a name to itself."""

    def __init__(self, function):
        self.read = names_read(function)

    def visit_Assign(self, node):
        if ast.unparse(node.targets[0]) == ast.unparse(node.value):
            return None
        targets = {n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)}
        if targets & self.read or not isinstance(node.targets[0], ast.Name):
            return node
        return ast.Expr(node.value) if isinstance(node.value, ast.Call) else None

    def visit_AnnAssign(self, node):
        return None if ast.unparse(node.target) == ast.unparse(node.value) else node


def in_older_words(text):
    for new, old in ((r"\br0_(numel|index|base|mask|offset)\b", r"r\1"), (r"\bR0_BLOCK\b", "RBLOCK")):
        text = re.sub(new, old, text)
    return re.sub(r"\br0_(\d+)\b", r"r\1", text)


class Launches(ast.NodeTransformer):
    """kernel.run(...) as kernel[grid(...)](..., XBLOCK=...)."""

    def __init__(self, kernels):
        self.kernels = kernels

    def visit_Call(self, node):
        kernel = self.kernels.get(getattr(getattr(node.func, "value", None), "id", ""))
        if kernel is None or node.func.attr != "run":
            return self.generic_visit(node)
        sizes = dict(zip(kernel.parameters, node.args))
        numbers = [ast.unparse(sizes[name]) for name in ("ynumel", "xnumel") if name in sizes]
        options = {**kernel.blocks, "num_warps": kernel.config.num_warps, "num_stages": kernel.config.num_stages}
        given = [*map(ast.unparse, node.args), *(f"{name}={value}" for name, value in options.items())]
        return ast.parse(f"{kernel.name}[grid({', '.join(numbers)})]({', '.join(given)})", mode="eval").body


def kernel_text(source):
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        function.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        Unused(function).visit(function)
    return "\n\n\n".join(ast.unparse(ast.fix_missing_locations(function)) for function in functions)


def call_text(tree, kernels, arguments, layouts, saved):
    """The wrapper's call, with its arguments under these names: [(today's, KernelBook's)]."""
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call")
    Launches(kernels).visit(call)
    Unused(call).visit(call)
    call.args.args = [ast.arg("args")]
    start = [f"{', '.join(new for _, new in arguments)}, = args", "args.clear()"]
    start += [
        f"assert_size_stride({new}, {tuple_text(layouts[old][0])}, {tuple_text(layouts[old][1])})"
        for old, new in arguments
        if old in layouts
    ]
    work = next(node for node in call.body if isinstance(node, ast.With))
    end = next(node for node in ast.walk(call) if isinstance(node, ast.Return))
    end.value.elts += [ast.Name(name) for name in saved]
    call.body = [work] if end in work.body else [work, end]
    text = ast.unparse(ast.fix_missing_locations(call))
    for old, new in arguments:
        text = re.sub(rf"\b{old}\b", new, text)
    head, rest = text.split("\n", 1)
    return "\n".join([head, *(f"    {line}" for line in start), rest])


def row(source, entry):
    """The row of a module."""
    with tempfile.TemporaryDirectory() as folder:
        generated = inductor.generate(loaded(source, entry, folder))
    linecache.clearcache()
    tree = ast.parse(generated.wrapper)
    texts = [
        in_older_words(node.value.args[1].value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("async_compile.triton(")
    ]
    kernels = {kernel.name: kernel for kernel in map(Tuned, (text.replace("RBLOCK", "R0_BLOCK") for text in texts))}
    for kernel in kernels.values():
        kernel.blocks = {name.replace("R0_", "R"): value for name, value in kernel.blocks.items()}
    problem = ast.parse(source)
    model = module.class_called(problem, entry)
    forward = module.methods_of(model)["forward"]
    names = module.bound(generated, forward)
    user = [spec.arg.name for spec in generated.inputs if spec.kind == InputKind.USER_INPUT]
    stem = ("primals_{}", 1) if len(user) < len(generated.inputs) else ("arg{}_1", 0)
    arguments = [(spec.arg.name, stem[0].format(i)) for i, spec in enumerate(generated.inputs, stem[1])]
    new = dict(arguments)
    saved = [new[name] for name in user] if stem[1] else []
    texts_of = {name: f"input_{user.index(name)}" if name in user else names[name] for name, _ in arguments}
    output = ", ".join(f"output[{i}]" for i in range(generated.outputs.num_leaves))
    lines = [f"{given} = {texts_of[name]}" for name, given in arguments]
    lines += [f"output = call([{', '.join(given for _, given in arguments)}])", f"return {output}"]
    forward.args.args = [ast.arg("self"), *(ast.arg(f"input_{i}") for i in range(len(user)))]
    forward.body = ast.parse("\n".join(lines)).body
    model.name += "New"
    written = ast.unparse(ast.fix_missing_locations(model)).replace(f"super({entry}, ", f"super({entry}New, ")
    parts = [HEADER, *map(kernel_text, texts), call_text(tree, kernels, arguments, generated.layouts, saved), written]
    return {"python_code": source, "triton_code": "\n\n\n".join(parts) + "\n", "entry_point": entry}


def printed_row(draw, number):
    return row(*problem_of(draw, number))
