"""The evaluator of Triton IR: elementwise operations, casts and tl.dot (triton_ir.py says how)."""

import os

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl
from triton.language.extra import libdevice

import triton_ir
from triton_ir import ALL, BESIDE_GPU, FLOATS, INTEGERS, agree, bits, both, float_edges, integer_edges

if not os.path.exists(triton_ir.IR_RUN):
    pytest.skip(f"no {triton_ir.IR_RUN}", allow_module_level=True)

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
    elif OP == "div_rn":
        c = tl.div_rn(a, b)
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
        "div_rn",
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
    if op == "div_rn" and dtype != torch.float32:
        pytest.skip("tl.div_rn is of float32")
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
    # A GPU's quotient of float32 is two units off at most: div.full.
    approximate = BESIDE_GPU and op == "div" and dtype == torch.float32
    agree(expected, got, exact=not approximate, rtol=2.4e-7, atol=torch.finfo(torch.float32).tiny)


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
    elif OP == "sqrt_rn":
        c = tl.sqrt_rn(a)
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


EXACT_UNARY = {"sqrt", "sqrt_rn", "abs", "floor", "ceil", "neg", "rint", "isnan", "trunc"}


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
        "sqrt_rn",
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
    if op == "sqrt_rn" and dtype != torch.float32:
        pytest.skip("tl.sqrt_rn is of float32")
    if op in ("sin", "cos"):
        a = a.clamp(-1e4, 1e4)
    if BESIDE_GPU and dtype == torch.float32:  # which takes denormals for zeros in most of these
        a = torch.where(a.abs() < torch.finfo(dtype).tiny, 0.0, a)
    expected, got, _ = both(runner, float_unary, (1,), [a, torch.zeros_like(a)], N=128, OP=op)
    # Two correctly working C libraries differ by a few units in the last place, a GPU's fast float32 by a few more.
    exact = op in EXACT_UNARY and not (BESIDE_GPU and op == "sqrt" and dtype == torch.float32)
    rtol = 1e-13 if dtype == torch.float64 else 4e-6 if BESIDE_GPU else 1e-6
    agree(expected[1:], got[1:], exact=exact, rtol=rtol, atol=1e-37)


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
        (torch.int16, [32767, -32768, 0, 32767, -32768, 300, -300, 1]),
        (torch.int8, [-1, 0, 0, -1, 0, 44, -44, 1]),  # the lower bits of those
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
