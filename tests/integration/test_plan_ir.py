"""The evaluator of Triton IR against Triton's own interpreter (mended by the worker), operation by operation.

Both get the same kernel: the interpreter runs its Python, the evaluator the IR that the compiler's front end makes of
it. Exact operations must agree bit for bit (NaN with any NaN); where the C library and numpy round differently the
tolerance is a few units in the last place and is named at the test. No GPU, no network, no server.
"""

import os

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl
from triton.language.extra import libdevice

import triton_ir
from tritonforge_worker import interpreter

if not os.path.exists(triton_ir.IR_RUN):
    pytest.skip(f"no {triton_ir.IR_RUN}", allow_module_level=True)

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(scope="module")
def runner():
    child = triton_ir.Runner()
    yield child
    assert child.stop() == 0


def interpret(kernel, grid, args, kwargs):
    names = [p.name for p in kernel.params]
    bound = {**dict(zip(names, args)), **kwargs}
    constexprs = {p.name for p in kernel.params if p.is_constexpr}
    interpreter.execute(kernel, bound, constexprs, (*grid, *(1,) * (3 - len(grid))))


def both(runner, kernel, grid, args, seed=0, **kwargs):
    """Runs both on copies of the arguments: ([interpreter's tensors], [evaluator's tensors], reply)."""
    copies = [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2)]
    interpret(kernel, grid, copies[0], kwargs)
    reply = runner.launch(kernel, grid, copies[1], kwargs, seed=seed)
    assert "error" not in reply, reply
    expected, got = ([t for t in side if isinstance(t, torch.Tensor)] for side in copies)
    return expected, got, reply


def bits(tensor):
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(kind) if tensor.dtype != torch.bool else tensor


def agree(expected, got, exact=True, rtol=0.0, atol=0.0):
    for index, (e, g) in enumerate(zip(expected, got)):
        if e.is_floating_point():
            e32, g32 = (e.double(), g.double())
            nan = torch.isnan(e32)
            assert torch.equal(nan, torch.isnan(g32)), (
                index,
                e32[nan != torch.isnan(g32)],
                g32[nan != torch.isnan(g32)],
            )
            if exact:
                wrong = (bits(e) != bits(g)) & ~nan
                assert not wrong.any(), (index, e[wrong][:5], g[wrong][:5], wrong.nonzero()[:5])
            else:
                torch.testing.assert_close(g32, e32, rtol=rtol, atol=atol, equal_nan=True)
        else:
            wrong = e != g
            assert not wrong.any(), (index, e[wrong][:5], g[wrong][:5], wrong.nonzero()[:5])


def float_edges(dtype, n=128):
    torch.manual_seed(1)
    info = torch.finfo(dtype)
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        float("inf"),
        float("-inf"),
        float("nan"),
        info.max,
        -info.max,
        info.tiny,
        -info.tiny,
        info.tiny / 2,
        info.tiny / 8,
        0.5,
        1.5,
        2.5,
        -2.5,
        info.eps,
        1 + info.eps,
        3.14159,
        88.0,
        -88.0,
        65504.0,
        1e-3,
    ]
    values = torch.tensor(edges, dtype=torch.float64)
    return torch.cat([values, torch.randn(n - len(edges), dtype=torch.float64) * 4]).to(dtype)


def integer_edges(dtype, n=128):
    torch.manual_seed(2)
    info = torch.iinfo(dtype)
    edges = [0, 1, -1, 2, -2, 3, -3, 7, info.max, info.min, info.max - 1, info.min + 1, info.max // 2, 100, -100]
    low, high = max(info.min, -(2**40)), min(info.max, 2**40)
    return torch.cat(
        [torch.tensor(edges, dtype=dtype), torch.randint(low, high, (n - len(edges),), dtype=torch.int64).to(dtype)]
    )


# ---- elementwise ----


@triton.jit
def float_binary(x, y, o, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    elif OP == "mul":
        c = a * b
    elif OP == "maximum":
        c = tl.maximum(a, b)
    elif OP == "minimum":
        c = tl.minimum(a, b)
    elif OP == "maximum_nan":
        c = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum_nan":
        c = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "div":
        c = a / b
    elif OP == "where":
        c = tl.where(a > b, a, b)
    elif OP == "fma":
        c = tl.fma(a, b, a)
    elif OP == "clamp":
        c = tl.clamp(a, -1.5, 2.0)
    elif OP == "compare":
        c = ((a < b).to(tl.int32) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)).to(
            a.dtype
        )
    tl.store(o + i, c)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "op",
    [
        "add",
        "sub",
        "mul",
        "div",
        "maximum_nan",
        "minimum_nan",
        "where",
        "fma",
        "clamp",
        "compare",
        "maximum",
        "minimum",
    ],
)
def test_float_binary(runner, op, dtype):
    a, b = float_edges(dtype), float_edges(dtype).flip(0)
    if op in ("maximum", "minimum"):  # which zero wins is not said; NaN is left out of both inputs' sign cases
        a, b = a.nan_to_num(1.0), b.nan_to_num(2.0)
        a, b = torch.where(a == 0, 1.0, a).to(dtype), torch.where(b == 0, 1.0, b).to(dtype)
    if op == "clamp":
        a = a.nan_to_num(0.25)
    if op == "fma":  # numpy's multiply and add in the next wider type
        a, b = a.clamp(-100, 100).nan_to_num(1.0), b.clamp(-100, 100).nan_to_num(1.0)
    if op in ("fma", "clamp") and dtype in (torch.float16, torch.bfloat16):
        if op == "fma":
            a, b = a.round(), b.round()
        else:
            pytest.skip("tl.clamp with float32 bounds promotes")
    expected, got, _ = both(runner, float_binary, (1,), [a, b, torch.zeros_like(a)], N=128, OP=op)
    agree(expected, got)


@triton.jit
def float_unary(x, o, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    if OP == "exp":
        c = tl.exp(a)
    elif OP == "exp2":
        c = tl.exp2(a)
    elif OP == "log":
        c = tl.log(a)
    elif OP == "log2":
        c = tl.log2(a)
    elif OP == "sin":
        c = tl.sin(a)
    elif OP == "cos":
        c = tl.cos(a)
    elif OP == "erf":
        c = tl.math.erf(a)
    elif OP == "sqrt":
        c = tl.sqrt(a)
    elif OP == "rsqrt":
        c = tl.rsqrt(a)
    elif OP == "abs":
        c = tl.abs(a)
    elif OP == "floor":
        c = tl.floor(a)
    elif OP == "ceil":
        c = tl.ceil(a)
    elif OP == "neg":
        c = -a
    elif OP == "sigmoid":
        c = tl.sigmoid(a)
    elif OP == "tanh":
        c = libdevice.tanh(a)
    elif OP == "log1p":
        c = libdevice.log1p(a)
    elif OP == "expm1":
        c = libdevice.expm1(a)
    elif OP == "rint":
        c = libdevice.rint(a)
    elif OP == "pow":
        c = libdevice.pow(a, a)
    elif OP == "atan2":
        c = libdevice.atan2(a, a + 1)
    elif OP == "isnan":
        c = libdevice.isnan(a).to(tl.float32)
    elif OP == "erfc":
        c = libdevice.erfc(a)
    elif OP == "trunc":
        c = libdevice.trunc(a)
    elif OP == "sinh":
        c = libdevice.sinh(a)
    elif OP == "cbrt":
        c = libdevice.cbrt(a)
    tl.store(o + i, c)


EXACT_UNARY = {"sqrt", "abs", "floor", "ceil", "neg", "rint", "isnan", "trunc"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "op",
    [
        "exp",
        "exp2",
        "log",
        "log2",
        "sin",
        "cos",
        "erf",
        "sqrt",
        "rsqrt",
        "abs",
        "floor",
        "ceil",
        "neg",
        "sigmoid",
        "tanh",
        "log1p",
        "expm1",
        "rint",
        "pow",
        "atan2",
        "isnan",
        "erfc",
        "trunc",
        "sinh",
        "cbrt",
    ],
)
def test_float_unary(runner, op, dtype):
    a = float_edges(dtype)
    if op == "isnan" and dtype == torch.float64:
        pytest.skip("__nv_isnand is not known to the interpreter")
    if op in ("sin", "cos"):
        a = a.clamp(-1e4, 1e4)
    expected, got, _ = both(runner, float_unary, (1,), [a, torch.zeros_like(a)], N=128, OP=op)
    # Two correctly working C libraries differ by a few units in the last place.
    agree(expected[1:], got[1:], exact=op in EXACT_UNARY, rtol=1e-6 if dtype == torch.float32 else 1e-13, atol=1e-37)


@triton.jit
def integer_binary(x, y, o, N: tl.constexpr, OP: tl.constexpr, UNSIGNED: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if UNSIGNED:
        kind: tl.constexpr = (
            tl.uint8
            if x.dtype.element_ty == tl.int8
            else tl.uint16
            if x.dtype.element_ty == tl.int16
            else tl.uint32
            if x.dtype.element_ty == tl.int32
            else tl.uint64
        )
        a = a.to(kind, bitcast=True)
        b = b.to(kind, bitcast=True)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    elif OP == "mul":
        c = a * b
    elif OP == "div":
        c = a // b
    elif OP == "mod":
        c = a % b
    elif OP == "and":
        c = a & b
    elif OP == "or":
        c = a | b
    elif OP == "xor":
        c = a ^ b
    elif OP == "shl":
        c = a << (b & 7)
    elif OP == "shr":
        c = a >> (b & 7)
    elif OP == "max":
        c = tl.maximum(a, b)
    elif OP == "min":
        c = tl.minimum(a, b)
    elif OP == "not":
        c = ~a
    elif OP == "abs":
        c = tl.abs(a)
    elif OP == "compare":
        c = ((a < b).to(tl.int32) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)).to(
            a.dtype
        )
    elif OP == "mulhi":
        c = tl.umulhi(a, b)
    tl.store(o + i, c.to(x.dtype.element_ty, bitcast=True))


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "div", "mod", "and", "or", "xor", "shl", "shr", "max", "min", "not", "abs", "compare"]
)
def test_integer_binary(runner, op, dtype, unsigned):
    if op == "abs" and unsigned:
        pytest.skip("no such operation")
    if op == "not" and unsigned:
        pytest.skip("numpy 2 raises in the interpreter")
    a, b = integer_edges(dtype), integer_edges(dtype).flip(0)
    if op in ("div", "mod"):
        b = torch.where(b == 0, torch.ones_like(b), b)
        if not unsigned:
            b = torch.where(b == -1, torch.full_like(b, 3), b)  # numpy warns and differs on the smallest over -1
    if op in ("div", "mod") and unsigned:
        a, b = a & torch.iinfo(dtype).max, b & torch.iinfo(dtype).max  # the interpreter's fmod is not exact on 64 bits
        b = torch.where(b == 0, torch.ones_like(b), b)
    expected, got, _ = both(runner, integer_binary, (1,), [a, b, torch.zeros_like(a)], N=128, OP=op, UNSIGNED=unsigned)
    agree(expected, got)


def test_division_at_the_ends_of_the_range(runner):
    smallest = torch.iinfo(torch.int32).min
    a = torch.tensor([smallest, smallest, 7, -7, 7, -7, 0, smallest], dtype=torch.int32)
    b = torch.tensor([-1, 1, 2, 2, -2, -2, 5, 2], dtype=torch.int32)
    for op, expected in (
        ("div", [smallest, smallest, 3, -3, -3, 3, 0, smallest // 2]),
        ("mod", [0, 0, 1, -1, 1, -1, 0, 0]),
    ):
        o = torch.zeros_like(a)
        reply = runner.launch(integer_binary, (1,), [a, b, o], {"N": 8, "OP": op, "UNSIGNED": False})
        assert "error" not in reply and o.tolist() == expected, (op, o)


@pytest.mark.parametrize("dtype, width", [(torch.int32, 32), (torch.int64, 64)])
def test_high_half_of_a_product(runner, dtype, width):
    a, b = (
        integer_edges(dtype),
        integer_edges(dtype).flip(0),
    )  # numpy has no product that wide: Python's integers are the reference
    o = torch.zeros_like(a)
    runner.launch(integer_binary, (1,), [a, b, o], {"N": 128, "OP": "mulhi", "UNSIGNED": False})
    expected = [(x % 2**width) * (y % 2**width) >> width for x, y in zip(a.tolist(), b.tolist())]
    assert [v % 2**width for v in o.tolist()] == expected


# ---- casts ----


@triton.jit
def cast_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty))


ALL = FLOATS + INTEGERS + [torch.uint8, torch.uint16, torch.uint32]


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_casts(runner, source, target):
    if source.is_floating_point:
        a = float_edges(source)
        if not target.is_floating_point:  # beyond the range the hardware saturates, which the test below asks for
            info = torch.iinfo(target)
            a = a.double().nan_to_num(0).clamp(max(info.min, -(2.0**31)) * 0.9, min(info.max, 2.0**31) * 0.9).to(source)
    else:
        signed = {torch.uint8: torch.int8, torch.uint16: torch.int16, torch.uint32: torch.int32}.get(source, source)
        a = integer_edges(signed).view(source)
    o = torch.zeros(128, dtype=target)
    expected, got, _ = both(runner, cast_kernel, (1,), [a, o], N=128)
    if target in (torch.uint16, torch.uint32):
        expected, got = [
            [
                t.view(torch.int16 if target == torch.uint16 else torch.int32) if t.dtype == target else t
                for t in side[1:]
            ]
            for side in (expected, got)
        ]
    else:
        expected, got = expected[1:], got[1:]
    if source in (torch.int64, torch.int32, torch.uint32) and target == torch.bfloat16:
        return agree(expected, got, exact=False, rtol=2**-7)  # the interpreter rounds twice
    agree(expected, got)


def test_casts_saturate(runner):
    a = torch.tensor([3e9, -3e9, float("nan"), float("inf"), -float("inf"), 300.0, -300.0, 1.9], dtype=torch.float32)
    for dtype, expected in (
        (torch.int32, [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 300, -300, 1]),
        (torch.int8, [127, -128, 0, 127, -128, 127, -128, 1]),
    ):
        o = torch.zeros(8, dtype=dtype)
        runner.launch(cast_kernel, (1,), [a, o], {"N": 8})
        assert o.tolist() == expected


@triton.jit
def float8_kernel(x, o, p, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    narrow = a.to(KIND)
    tl.store(o + i, narrow.to(tl.float32))
    tl.store(p + i, narrow.to(tl.int8, bitcast=True))
    tl.store(o + N + i, tl.load(p + i).to(KIND, bitcast=True).to(tl.float32))


@pytest.mark.parametrize("name", ["float8e5", "float8e4nv"])
def test_float8(runner, name):
    kind = getattr(tl, name)
    torch_kind = {"float8e5": torch.float8_e5m2, "float8e4nv": torch.float8_e4m3fn}[name]
    a = torch.cat([torch.randn(120) * 10, torch.tensor([0.0, -0.0, 1e-9, 0.001953125, 400.0, -448.0, 0.0009, 0.06])])
    o, p = torch.zeros(256), torch.zeros(128, dtype=torch.int8)
    reply = runner.launch(float8_kernel, (1,), [a, o, p], {"N": 128, "KIND": kind})
    assert "error" not in reply, reply
    narrow = a.to(torch_kind)
    assert (
        torch.equal(bits(o[:128]), bits(narrow.float()))
        and torch.equal(p, narrow.view(torch.int8))
        and torch.equal(o[128:], o[:128])
    )


# ---- shapes ----


@triton.jit
def shape_kernel(x, o, M: tl.constexpr, N: tl.constexpr, OP: tl.constexpr):
    r = tl.arange(0, M)
    c = tl.arange(0, N)
    a = tl.load(x + r[:, None] * N + c[None, :])
    flat = tl.arange(0, M * N)
    if OP == "trans":
        tl.store(o + c[:, None] * M + r[None, :], tl.trans(a))
    elif OP == "reshape":
        tl.store(o + flat, tl.reshape(a, (M * N,)))
    elif OP == "ravel":
        tl.store(o + flat, tl.ravel(a))
    elif OP == "permute":
        b = tl.reshape(a, (2, M // 2, N))
        tl.store(o + flat, tl.reshape(tl.permute(b, (2, 0, 1)), (M * N,)))
    elif OP == "join":
        left, right = tl.split(tl.reshape(a, (M, N // 2, 2)))
        tl.store(o + flat, tl.reshape(tl.join(right, left), (M * N,)))
    elif OP == "interleave":
        left, right = tl.split(tl.reshape(a, (M, N // 2, 2)))
        tl.store(o + flat, tl.reshape(tl.interleave(left, right), (M * N,)))
    elif OP == "cat":
        tl.store(o + tl.arange(0, 2 * M), tl.cat(tl.sum(a, 1), tl.max(a, 1), can_reorder=True))
    elif OP == "broadcast":
        tl.store(
            o + r[:, None] * N + c[None, :], tl.broadcast_to(tl.sum(a, 1)[:, None], (M, N)) + tl.sum(a, 0)[None, :]
        )
    elif OP == "gather":
        tl.store(o + r[:, None] * N + c[None, :], tl.gather(a, tl.broadcast_to(((c * 3 + 1) % N)[None, :], (M, N)), 1))
    elif OP == "gather0":
        tl.store(o + r[:, None] * N + c[None, :], tl.gather(a, tl.broadcast_to(((r * 5 + 2) % M)[:, None], (M, N)), 0))
    elif OP == "flip":
        tl.store(o + r[:, None] * N + c[None, :], tl.flip(a, 1))
    elif OP == "sort":
        tl.store(o + r[:, None] * N + c[None, :], tl.sort(a, 1))
    elif OP == "histogram":
        tl.store(o + c, tl.histogram((flat * 7) % N, N).to(tl.float32))
    elif OP == "swizzle":
        i, j = tl.swizzle2d(r[:, None], c[None, :], M, N, 2)
        tl.store(o + r[:, None] * N + c[None, :], (i * N + j).to(tl.float32))


@pytest.mark.parametrize(
    "op",
    [
        "trans",
        "reshape",
        "ravel",
        "permute",
        "join",
        "interleave",
        "cat",
        "broadcast",
        "gather",
        "gather0",
        "flip",
        "sort",
        "histogram",
        "swizzle",
    ],
)
@pytest.mark.parametrize("shape", [(8, 16), (16, 4), (2, 32)])
def test_shapes(runner, op, shape):
    x = torch.randn(shape)
    expected, got, _ = both(
        runner, shape_kernel, (1,), [x, torch.zeros(shape[0] * shape[1])], M=shape[0], N=shape[1], OP=op
    )
    agree(expected, got, exact=op not in ("broadcast", "cat"), rtol=1e-6, atol=1e-6)


# ---- reductions and scans ----


@triton.jit
def multiply_add(a, b, c, d):  # associative, but the order of its operands matters
    return a * c, b * c + d


@triton.jit
def pair_maximum(value_a, index_a, value_b, index_b):
    take = (value_a > value_b) | ((value_a == value_b) & (index_a < index_b))
    return tl.where(take, value_a, value_b), tl.where(take, index_a, index_b)


@triton.jit
def reduce_kernel(x, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr):
    r = tl.arange(0, M)
    c = tl.arange(0, N)
    a = tl.load(x + r[:, None] * N + c[None, :])
    index = tl.broadcast_to(c[None, :], (M, N)) if AXIS == 1 else tl.broadcast_to(r[:, None], (M, N))
    K: tl.constexpr = M if AXIS == 1 else N
    k = tl.arange(0, K)
    if OP == "sum":
        b = tl.sum(a, AXIS)
    elif OP == "max":
        b = tl.max(a, AXIS)
    elif OP == "min":
        b = tl.min(a, AXIS)
    elif OP == "argmax":
        b = tl.argmax(a, AXIS)
    elif OP == "argmin":
        b = tl.argmin(a, AXIS)
    elif OP == "max_index":
        v, w = tl.max(a, AXIS, return_indices=True)
        b = v * 100 + w
    elif OP == "xor":
        b = tl.xor_sum(a, AXIS)
    elif OP == "pair":
        v, w = tl.reduce((a, index), AXIS, pair_maximum)
        b = v + w
    elif OP == "ordered":
        v, w = tl.reduce((a, a * 0 + 1), AXIS, multiply_add)
        b = v + w
    tl.store(o + k, b)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.int64, torch.float64]
)
@pytest.mark.parametrize("op", ["sum", "max", "min", "argmax", "argmin", "max_index", "xor", "pair", "ordered"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 64), (32, 8), (1, 16)])
def test_reductions(runner, op, axis, dtype, shape):
    if op == "xor" and dtype.is_floating_point:
        pytest.skip("integers only")
    if op == "ordered" and dtype != torch.float64:
        pytest.skip("long products in one type are enough")
    torch.manual_seed(3)
    x = torch.randint(-4, 5, shape).to(dtype) if op != "ordered" else torch.randn(shape, dtype=dtype)
    kept = shape[0] if axis == 1 else shape[1]
    out = torch.zeros(kept, dtype=dtype)
    expected, got, _ = both(runner, reduce_kernel, (1,), [x, out], M=shape[0], N=shape[1], AXIS=axis, OP=op)
    agree(expected, got, exact=op != "ordered", rtol=1e-9, atol=1e-12)


def test_sum_of_floats_is_pairwise(runner):
    x = torch.randn(1, 65536) + 1
    o = torch.zeros(1)
    runner.launch(reduce_kernel, (1,), [x, o], {"M": 1, "N": 65536, "AXIS": 1, "OP": "sum"})
    torch.testing.assert_close(o[0].double(), x.double().sum(), rtol=3e-7, atol=0)


@triton.jit
def scan_kernel(x, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, OP: tl.constexpr):
    r = tl.arange(0, M)
    c = tl.arange(0, N)
    a = tl.load(x + r[:, None] * N + c[None, :])
    if OP == "sum":
        b = tl.cumsum(a, AXIS, reverse=REVERSE)
    elif OP == "prod":
        b = tl.cumprod(a, AXIS, reverse=REVERSE)
    else:
        v, w = tl.associative_scan((a, a * 0 + 1), AXIS, multiply_add, reverse=REVERSE)
        b = v + w
    tl.store(o + r[:, None] * N + c[None, :], b)


@pytest.mark.parametrize("op", ["sum", "prod", "ordered"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(runner, op, reverse, axis):
    if op == "ordered" and reverse:
        pytest.skip("the interpreter scans a custom function forwards only")
    x = torch.randn(16, 32, dtype=torch.float64)
    expected, got, _ = both(
        runner, scan_kernel, (1,), [x, torch.zeros_like(x)], M=16, N=32, AXIS=axis, REVERSE=reverse, OP=op
    )
    agree(expected, got, exact=False, rtol=1e-10, atol=1e-12)


# ---- dot ----


@triton.jit
def dot_kernel(x, y, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):
    r = tl.arange(0, M)
    c = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(x + r[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + c[None, :])
    acc = tl.full((M, N), 1, OUT)
    acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=OUT)
    tl.store(o + r[:, None] * N + c[None, :], acc)


@pytest.mark.parametrize(
    "dtype, out",
    [
        (torch.float32, tl.float32),
        (torch.float16, tl.float32),
        (torch.bfloat16, tl.float32),
        (torch.float16, tl.float16),
        (torch.int8, tl.int32),
        (torch.float64, tl.float64),
    ],
)
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 16, 64), (64, 32, 32)])
def test_dot(runner, dtype, out, shape):
    M, N, K = shape
    if dtype == torch.int8 and K < 32:
        pytest.skip("the compiler wants 32 at least")
    a, b = (torch.randint(-4, 5, (M, K)).to(dtype), torch.randint(-4, 5, (K, N)).to(dtype))  # exact in every order
    torch_out = {
        tl.float32: torch.float32,
        tl.float16: torch.float16,
        tl.int32: torch.int32,
        tl.float64: torch.float64,
    }[out]
    expected, got, reply = both(
        runner, dot_kernel, (1,), [a, b, torch.zeros(M, N, dtype=torch_out)], M=M, N=N, K=K, PRECISION="ieee", OUT=out
    )
    agree(expected, got)
    assert reply["flops"] == 2 * M * N * K


def test_dot_cuts_operands_to_tf32(runner):
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    o = torch.zeros(16, 16)
    runner.launch(dot_kernel, (1,), [a, b, o], {"M": 16, "N": 16, "K": 16, "PRECISION": "tf32", "OUT": tl.float32})
    cut = [(t.view(torch.int32) & ~0x1FFF).view(torch.float32).double() for t in (a, b)]
    torch.testing.assert_close(o.double(), cut[0] @ cut[1] + 1, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(o.double(), a.double() @ b.double() + 1, rtol=1e-5, atol=1e-5)


# ---- control flow ----


@triton.jit(noinline=True)
def early(a, limit):
    if limit > 3:
        return a + 1.0
    return a * 2.0


@triton.jit
def control_kernel(x, o, n, scale, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = a
    for k in range(0, n):
        a, b = b, a + k  # values that change places
        if k % 2 == 0:
            a = a * scale
        else:
            b = b - 1.0
    j = n
    while j > 0:
        a += tl.sum(b) * 0.001
        j = j // 2
    for k in range(n, 0, -1):
        a += k
    for k in tl.static_range(3):
        b += k
    for row in range(0, 2):
        for column in range(0, row + 1):
            a += row * column
    a += early(scale, n)
    if flag:
        if n > 1000:
            return
        a = a + 1
    tl.store(o + i, a)
    tl.store(o + B + i, b)


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("flag", [False, True])
def test_control_flow(runner, n, flag):
    x = torch.randint(-3, 4, (32,)).float()
    expected, got, _ = both(runner, control_kernel, (1,), [x, torch.zeros(64), n, 1.5, flag], B=32)
    agree(expected, got, exact=False, rtol=1e-6, atol=1e-6)


def test_early_return(runner):
    o = torch.zeros(64)
    reply = runner.launch(control_kernel, (1,), [torch.ones(32), o, 2000, 0.5, True], {"B": 32})
    assert "error" not in reply and not o.any()


@triton.jit
def program_kernel(o, B: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    index = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(o + index, index * 10 + tl.num_programs(2))


def test_program_ids_in_any_order(runner):
    for seed in range(3):
        expected, got, _ = both(runner, program_kernel, (3, 4, 5), [torch.zeros(60, dtype=torch.int32)], seed=seed, B=1)
        agree(expected, got)


# ---- memory ----


@triton.jit
def masked_kernel(x, o, n, B: tl.constexpr, OTHER: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if OTHER:
        a = tl.load(x + i, mask=i < n, other=-7.0, cache_modifier=".cg", eviction_policy="evict_last")
    else:
        a = tl.load(x + i, mask=i < n)
    tl.store(o + i, a + 1, mask=(i < n) & (i % 3 != 0), cache_modifier=".wb")
    tl.store(o + tl.num_programs(0) * B + tl.program_id(0), tl.sum(tl.where(i < n, a, 0.0)))


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_masks(runner, other, dtype):
    x = torch.randint(0, 5, (100,)).to(dtype)
    expected, got, _ = both(runner, masked_kernel, (2,), [x, torch.zeros(130, dtype=dtype), 100], B=64, OTHER=other)
    agree(expected, got)


@triton.jit
def block_pointer_kernel(x, o, M, N, B: tl.constexpr, PAD: tl.constexpr):
    p = tl.make_block_ptr(x, shape=(M, N), strides=(N, 1), offsets=(0, 0), block_shape=(B, B), order=(1, 0))
    q = tl.make_block_ptr(o, shape=(N, M), strides=(M, 1), offsets=(0, 0), block_shape=(B, B), order=(1, 0))
    for _ in range(0, N, B):
        tl.store(q, tl.trans(tl.load(p, boundary_check=(0, 1), padding_option=PAD)), boundary_check=(0, 1))
        p = tl.advance(p, (0, B))
        q = tl.advance(q, (B, 0))


@pytest.mark.parametrize("pad", ["zero", "nan"])
def test_block_pointers(runner, pad):
    expected, got, _ = both(
        runner, block_pointer_kernel, (1,), [torch.randn(10, 40), torch.zeros(40, 10), 10, 40], B=16, PAD=pad
    )
    agree(expected, got)


@triton.jit
def descriptor_kernel(x, o, M, N, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    e = tl.make_tensor_descriptor(o, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    for k in range(0, N, B):
        e.store([0, k], d.load([0, k]) * 2)


def test_tensor_descriptors(runner):
    expected, got, _ = both(runner, descriptor_kernel, (1,), [torch.randn(12, 40), torch.zeros(12, 40), 12, 40], B=16)
    agree(expected, got)


@triton.jit
def atomic_kernel(x, o, old, B: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    at = o + i % 4
    if OP == "add":
        was = tl.atomic_add(at, a, mask=i < B - 3)
    elif OP == "max":
        was = tl.atomic_max(at, a)
    elif OP == "min":
        was = tl.atomic_min(at, a)
    elif OP == "and":
        was = tl.atomic_and(at, a)
    elif OP == "or":
        was = tl.atomic_or(at, a)
    elif OP == "xor":
        was = tl.atomic_xor(at, a)
    elif OP == "xchg":
        was = tl.atomic_xchg(o + i, a)
    elif OP == "cas":
        was = tl.atomic_cas(o + i, a * 0, a)
    tl.store(old + i, was)


@pytest.mark.parametrize(
    "op, dtype",
    [
        ("add", torch.float32),
        ("add", torch.int32),
        ("add", torch.int64),
        ("add", torch.float16),
        ("max", torch.float32),
        ("max", torch.int32),
        ("min", torch.float32),
        ("min", torch.int64),
        ("and", torch.int32),
        ("or", torch.int32),
        ("xor", torch.int32),
        ("xchg", torch.int32),
        ("cas", torch.int32),
    ],
)
def test_atomics(runner, op, dtype):
    x = torch.randint(1, 9, (16,)).to(dtype)
    args = [x, torch.zeros(16, dtype=dtype), torch.zeros(16, dtype=dtype)]
    expected, got, _ = both(runner, atomic_kernel, (1,), args, B=16, OP=op)
    # What each of several atomics on one address finds depends on their order, which is free.
    agree(expected[:2], got[:2])


@triton.jit
def random_kernel(o, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + B + i, tl.randn(seed, i))
    tl.store(o + 2 * B + i, tl.randint(seed, i).to(tl.float32))


def test_philox(runner):
    expected, got, _ = both(runner, random_kernel, (1,), [torch.zeros(3 * 128), 42], B=128)
    agree([expected[0][:128], expected[0][256:]], [got[0][:128], got[0][256:]])
    agree([expected[0][128:256]], [got[0][128:256]], exact=False, rtol=1e-5, atol=1e-6)


# ---- what is refused, and what is found ----


@triton.jit
def unmasked(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) + n)


def test_out_of_bounds_names_buffer_element_program_and_line(runner):
    reply = runner.launch(unmasked, (2,), [torch.zeros(100), torch.zeros(128), 100], {"B": 64}, seed=1)
    assert "element 100 of 'x', which has 100 elements" in reply["error"], reply
    assert "kernel unmasked, test_plan_ir.py:" in reply["error"] and "program (1, 0, 0)" in reply["error"]
    negative = runner.launch(unmasked, (1,), [torch.zeros(64), torch.zeros(60), 1], {"B": 64})
    assert "out-of-bounds store: element 60 of 'o'" in negative["error"]


@triton.jit
def below(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B) - 3, 1.0)


def test_addresses_below_a_buffer_belong_to_it(runner):
    assert "element -3 of 'x'" in runner.launch(below, (1,), [torch.zeros(64)], {"B": 16})["error"]


@triton.jit
def racing(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(s, tl.load(s) + tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def overlapping(o, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o + p * (B // 2) + tl.arange(0, B), tl.zeros((B,), tl.float32) + p)


@triton.jit
def same_value(o, B: tl.constexpr):
    tl.store(o + tl.arange(0, B), tl.zeros((B,), tl.float32) + 3)


@triton.jit
def summing(x, s, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(s, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.jit
def last_adds(x, part, count, s, B: tl.constexpr, P: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    if tl.atomic_add(count, 1) == P - 1:
        tl.store(s, tl.sum(tl.load(part + tl.arange(0, P))))


def test_races(runner):
    x = torch.rand(256)
    for seed in range(3):
        reply = runner.launch(racing, (4,), [x, torch.zeros(1), 256], {"B": 64}, seed=seed)
        assert [kind for kind, _ in reply["findings"]] == ["race"] and "element 0 of 's'" in reply["findings"][0][1], (
            reply
        )
        reply = runner.launch(overlapping, (4,), [torch.zeros(64)], {"B": 16}, seed=seed)
        assert [kind for kind, _ in reply["findings"]] == ["race"], reply
        assert not runner.launch(same_value, (4,), [torch.zeros(64)], {"B": 16}, seed=seed)["findings"]
        total = torch.zeros(1)
        assert not runner.launch(summing, (4,), [x, total, 256], {"B": 64}, seed=seed)["findings"]
        torch.testing.assert_close(total[0], x.sum())
        # The last program reads what the others wrote, ordered by the counter.
        total, part, count = torch.zeros(1), torch.zeros(4), torch.zeros(1, dtype=torch.int32)
        reply = runner.launch(last_adds, (4,), [x, part, count, total], {"B": 64, "P": 4}, seed=seed)
        assert not reply["findings"], reply
        torch.testing.assert_close(total[0], x.sum())


def test_uninitialised_reads(runner):
    reply = runner.launch(racing, (1,), [torch.ones(64), torch.zeros(1), 64], {"B": 64}, uninitialised=("s",))
    assert reply["findings"][0][0] == "uninitialised_read" and "element 0 of 's'" in reply["findings"][0][1]
    assert not runner.launch(unmasked, (1,), [torch.ones(64), torch.zeros(64), 0], {"B": 64}, uninitialised=("o",))[
        "findings"
    ]


@triton.jit
def endless(o):
    while tl.atomic_add(o, 0) == 0:
        pass


@triton.jit
def assembly(o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def asserting(o, n):
    tl.device_assert(n < 3, "n is small")
    tl.store(o, n)


def test_what_cannot_end_or_be_evaluated_says_so(runner):
    assert (
        "loop wait for another program"
        in runner.launch(endless, (1,), [torch.zeros(1, dtype=torch.int32)], {})["error"]
    )
    assert (
        "operation tt.elementwise_inline_asm is not evaluated"
        in runner.launch(assembly, (1,), [torch.zeros(16, dtype=torch.int32)], {"B": 16})["error"]
    )


def test_wrong_arguments_are_refused(runner):
    text, _ = triton_ir.lower(asserting, (torch.zeros(1), 2), {})
    reply, _ = runner.request(
        {"ir": text, "grid": [1, 1, 1], "buffers": [], "arguments": [{"integer": 1}, {"integer": 2}]}, []
    )
    assert "argument 'o' is no pointer" in reply["error"]
    reply, _ = runner.request({"ir": text, "grid": [1, 1, 1], "buffers": [], "arguments": []}, [])
    assert "takes 2 arguments, 0 are given" in reply["error"]


def test_ir_of_a_folder_is_the_same_without_its_locations(runner):
    text, _ = triton_ir.lower(unmasked, (torch.zeros(64), torch.zeros(64), 1), {"B": 64})
    assert "test_plan_ir.py" in text
    reply, _ = runner.request({"strip": text, "buffers": []}, [])
    assert (
        "loc(" not in reply["text"]
        and "#loc" not in reply["text"]
        and reply["text"].count("tt.store") == text.count("tt.store")
    )
