"""What to write in the place of names that Triton does not have and of calls that it does not take, as models write
them: a line below what the compiler's front end says."""

import difflib
import re

import triton.language as tl
from triton.language.extra import libdevice

# fmt: off
NAMES = {
    "libdevice": "from triton.language.extra import libdevice",
    "tanh": "2 * tl.sigmoid(2 * x) - 1",
    "pow": "x * x for a square, tl.exp(y * tl.log(x)) for x > 0",
    "round": "libdevice.rint(x), which rounds halves to even as torch.round does",
    "relu": "tl.maximum(x, 0.0)",
    "leaky_relu": "tl.where(x > 0, x, slope * x)",
    "gelu": "0.5 * x * (1 + tl.erf(x * 0.7071067811865476))",
    "silu": "x * tl.sigmoid(x)",
    "softplus": "tl.where(x > 20, x, tl.log(1 + tl.exp(x)))",
    "square": "x * x",
    "reciprocal": "1 / x",
    "sign": "tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))",
    "mean": "tl.sum(x, axis) / n",
    "var": "tl.sum((x - mean) * (x - mean), axis) / n",
    "std": "tl.sqrt(tl.sum((x - mean) * (x - mean), axis) / n)",
    "any": "tl.max(x.to(tl.int32), axis) > 0",
    "all": "tl.min(x.to(tl.int32), axis) > 0",
    "clip": "tl.clamp(x, low, high)",
    "select": "tl.where(condition, x, y)",
    "isnan": "x != x",
    "inf": "float('inf')",
    "nan": "float('nan')",
    "pi": "3.141592653589793",
    "ones": "tl.full(shape, 1, dtype)",
    "ones_like": "tl.full(x.shape, 1, x.dtype)",
    "full_like": "tl.full(x.shape, value, x.dtype)",
    "empty": "tl.zeros(shape, dtype)",
    "float": "x.to(tl.float32)",
    "int": "x.to(tl.int32)",
    "long": "x.to(tl.int64)",
    "half": "x.to(tl.float16)",
    "bool": "x.to(tl.int1)",
    "matmul": "tl.dot(a, b)",
    "transpose": "tl.trans(x)",
    "concatenate": "tl.join(x, y) and tl.reshape, or a store for each part",
    "stack": "tl.join(x, y)",
    "ceil_div": "tl.cdiv(a, b)",
    "block_id": "tl.program_id(axis)",
    "program_count": "tl.num_programs(axis)",
    "thread_id": "tl.arange(0, BLOCK): a program has blocks of values, and no threads",
    "syncthreads": "tl.debug_barrier()",
}
SAID = [
    (r"has no attribute '__r?pow__'", "x * x for a square, tl.exp(y * tl.log(x)) for x > 0, or libdevice.pow(x, y) "
     "(from triton.language.extra import libdevice)"),
    (r"'dtype' object is not callable", "a cast is x.to(tl.float32)"),
    (r"zeros_like\(\) got an unexpected keyword argument", "tl.zeros(x.shape, dtype=tl.float32)"),
    (r"^arange", "tl.arange(0, BLOCK), where BLOCK: tl.constexpr is a power of two, as triton.next_power_of_2(n) is; "
     "masks (mask=i < n) leave out what is beyond n"),
    (r"Did you forget to add @triton.jit|AST node type: Lambda|'<=' not supported .* 'function'",
     "tl.sum(x, axis) and tl.max(x, axis) reduce; the combine of tl.reduce(x, axis, combine) is a function of two "
     "values with @triton.jit of its own"),
    (r"create_reduce\(\): incompatible", "tl.max(x, axis) reduces, tl.maximum(x, y) is the larger of two values"),
    (r"AST node type: (Break|Continue)", "loops of a kernel run to their end: a while with a condition, or a mask"),
    (r"unsupported tensor index",
     "a block of values takes [:, None] and the like alone: load what is wanted, or mask it and add it up"),
    (r"must be Tensor, not tensor|must be real number, not tensor|Unsupported function referenced: <built-in",
     "functions of torch, math and numpy take no values of a kernel: tl's and libdevice's do"),
    (r"Input shapes should have M >=", "tl.dot takes blocks of at least 16 terms: a BLOCK_K of 16 or more, and masks "
     "(other=0.0) beyond what there is"),
]
# fmt: on


def hint(message):
    """A line to go below what the front end says, with its line feed; nothing where there is nothing to say."""
    missing = re.search(r"module '(triton\.language[\w.]*)' has no attribute '(\w+)'", message)
    if missing is None:
        said = next((text for pattern, text in SAID if re.search(pattern, message, re.M | re.S)), "")
        return said and f"\nhint: {said}"
    module, name = missing.groups()
    ways = []
    if hasattr(tl, name):
        ways.append(f"tl.{name}")
    elif hasattr(libdevice, name):
        ways.append(f"libdevice.{name} (from triton.language.extra import libdevice)")
    ways += [NAMES[name]] if name in NAMES else []
    ways = ways or [f"tl.{near}" for near in difflib.get_close_matches(name, dir(tl), 1)]
    return f"\nhint: {module.replace('triton.language', 'tl')} has no {name}: " + ", or ".join(ways) if ways else ""
