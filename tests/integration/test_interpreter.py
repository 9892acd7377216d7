"""Kernels through the mended interpreter and both compiler front ends, against torch. No GPU, no network, no server."""

import os
import subprocess
import sys

import pytest
import torch

ROOT = os.environ.get("TRITONFORGE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "worker"))

triton = pytest.importorskip("triton")
import triton.language as tl
from triton.language import load as load_alone
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import log1p as log1p_alone

from tritonforge_worker import frontend, interpreter

SENT = []
frontend.install_driver()
LAUNCHES = frontend.Launches(lambda header, payload: SENT.append(header), interpreter.execute, 1 << 20)
GLOBAL_SCALE = tl.constexpr(3)


@pytest.fixture(autouse=True)
def fresh():
    SENT.clear()
    LAUNCHES.begin(False)
    torch.manual_seed(0)
    yield
    assert not [header for header in SENT if "error" in header]
    assert not SENT or {header["target"] for header in SENT} == {"sm_90", "gfx942"}


@triton.jit
def unary(x, y, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=1.0)
    if OP == 0:
        b = libdevice.tanh(a)
    elif OP == 1:
        b = log1p_alone(a)
    elif OP == 2:
        b = tl.sigmoid(a) * tl.math.erf(a)
    elif OP == 3:
        b = libdevice.pow(a, a)
    elif OP == 4:
        b = tl.exp2(a) + tl.math.rsqrt(a) + tl.abs(-a) + tl.floor(a)
    else:
        b = min(a, 0.5) + max(a, 0.25)
    tl.store(y + i, b, mask=i < n)


@pytest.mark.parametrize(
    "op, expected",
    [
        (0, torch.tanh),
        (1, torch.log1p),
        (2, lambda a: torch.sigmoid(a) * torch.erf(a)),
        (3, lambda a: a**a),
        (4, lambda a: torch.exp2(a) + torch.rsqrt(a) + a + torch.floor(a)),
        (5, lambda a: a.clamp(max=0.5) + a.clamp(min=0.25)),
    ],
)
def test_functions(op, expected):
    x = torch.rand(100) + 0.1
    y = torch.empty_like(x)
    unary[(2,)](x, y, 100, OP=op, B=64)
    torch.testing.assert_close(y, expected(x), atol=1e-6, rtol=1e-5)


@triton.jit
def helper(a, b):
    c = a * b
    return c + 1


@triton.jit
def runtime_bound(x, y, n, scale, flag, B: tl.constexpr):
    total = tl.zeros((B,), dtype=tl.float32)
    for k in range(0, tl.cdiv(n, B)):
        i = k * B + tl.arange(0, B)
        total += helper(load_alone(x + i, mask=i < n, other=0.0), scale.to(tl.float32)) * k.to(tl.float32)
    for _ in tl.range(0, 2, num_stages=2):
        total += GLOBAL_SCALE
    for k in tl.static_range(3):
        total += k
    i = 0
    while i < n:
        total += 1.0
        i += B
    if flag:
        total = total * 2
    tl.store(y, total.sum(axis=0) + tl.max(total, axis=0))


def test_runtime_bounds_and_control_flow():
    x, y = torch.randn(100), torch.empty(1)
    runtime_bound[(1,)](x, y, 100, 1.5, True, B=32)
    padded = torch.cat([x, torch.zeros(28)]).reshape(4, 32)
    total = sum((padded[k] * 1.5 + 1) * k for k in range(4)) + 6 + 3 + 4
    torch.testing.assert_close(y[0], (total * 2).sum() + (total * 2).max(), atol=1e-3, rtol=1e-5)


@triton.jit
def matmul(a, b, c, M, N, K, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(0, K, B):
        r = k + tl.arange(0, B)
        x = tl.load(a + m[:, None] * K + r[None, :], mask=(m[:, None] < M) & (r[None, :] < K), other=0.0)
        w = tl.load(b + r[:, None] * N + n[None, :], mask=(r[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dot(dtype):
    a, b = torch.randn(40, 24).to(dtype), torch.randn(24, 20).to(dtype)
    c = torch.empty(40, 20, dtype=dtype)
    matmul[(3, 2)](a, b, c, 40, 20, 24, B=16)
    torch.testing.assert_close(c, (a.float() @ b.float()).to(dtype), atol=1e-2, rtol=1e-2)


@triton.jit
def bf16_arithmetic(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=0.0)
    b = a * a + a - 0.5
    b = tl.where(a > 0, b, -a)
    tl.store(y + i, b.to(tl.float32).to(tl.bfloat16), mask=i < n)


def test_bf16_arithmetic_is_not_done_on_bits():
    x = torch.randn(100, dtype=torch.bfloat16)
    y = torch.empty_like(x)
    bf16_arithmetic[(1,)](x, y, 100, B=128)
    expected = torch.where(x > 0, x * x + x - 0.5, -x)
    torch.testing.assert_close(y, expected, atol=2e-2, rtol=2e-2)


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def maximum_pair(value_a, index_a, value_b, index_b):
    take = value_a > value_b
    return tl.where(take, value_a, value_b), tl.where(take, index_a, index_b)


@triton.jit
def reductions(x, y, z, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(y + i, tl.cumsum(a, axis=0))
    tl.store(y + B + i, tl.associative_scan(a, 0, multiply))
    tl.store(y + 2 * B + i, tl.sort(a))
    tl.store(y + 3 * B + i, tl.flip(a, 0))
    tl.store(y + 4 * B + i, tl.softmax(a))
    tl.store(z, tl.reduce(a, 0, multiply))
    value, index = tl.reduce((a, i), 0, maximum_pair)
    tl.store(z + 1, value)
    tl.store(z + 2, index.to(tl.float32))
    tl.store(z + 3, tl.argmin(a, axis=0).to(tl.float32))
    tl.atomic_add(z + 4, a.sum())
    tl.atomic_max(z + 5, tl.max(a, axis=0))


def test_reductions_scans_sort_and_atomics():
    x = torch.rand(16) + 0.5
    y, z = torch.empty(5, 16), torch.zeros(6)
    reductions[(1,)](x, y, z, B=16)
    for row, expected in enumerate([x.cumsum(0), x.cumprod(0), x.sort().values, x.flip(0), x.softmax(0)]):
        torch.testing.assert_close(y[row], expected)
    torch.testing.assert_close(
        z, torch.stack([x.prod(), x.max(), x.argmax().float(), x.argmin().float(), x.sum(), x.max()])
    )


@triton.autotune(configs=[triton.Config({"B": 32}, num_warps=2), triton.Config({"B": 64}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def tuned(x, y, n, B: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i) if EVEN else tl.load(x + i, mask=i < n)
    tl.store(y + i, a + 1, mask=i < n)


def test_autotune_and_heuristics():
    x = torch.randn(100)
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(100, meta["B"]),)](x, y, 100)
    torch.testing.assert_close(y, x + 1)


@triton.jit
def blocks(x, y, M, N, B: tl.constexpr):
    p = tl.make_block_ptr(x, shape=(M, N), strides=(N, 1), offsets=(0, 0), block_shape=(B, B), order=(1, 0))
    q = tl.make_block_ptr(y, shape=(N, M), strides=(M, 1), offsets=(0, 0), block_shape=(B, B), order=(1, 0))
    for _ in range(0, N, B):
        tl.store(q, tl.trans(tl.load(p, boundary_check=(0, 1), padding_option="zero")), boundary_check=(0, 1))
        p = tl.advance(p, (0, B))
        q = tl.advance(q, (B, 0))


def test_block_pointers():
    x = torch.randn(10, 40)
    y = torch.empty(40, 10)
    blocks[(1,)](x, y, 10, 40, B=16)
    torch.testing.assert_close(y, x.T.contiguous())


@triton.jit
def random_numbers(y, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.rand(seed, i))


def test_philox():
    y = torch.empty(256)
    random_numbers[(1,)](y, 42, B=256)
    assert y.min() >= 0 and y.max() < 1 and 0.4 < y.mean() < 0.6


def test_out_of_bounds_names_the_argument():
    x, y = torch.randn(100), torch.empty(64)
    with pytest.raises(interpreter.OutOfBounds, match="argument 'y'"):
        unary[(2,)](x, y, 100, OP=0, B=64)


@triton.jit
def integers(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=1)
    b = (a // 3) * 5 + a % 7 + (a >> 1) + (a << 2) + (a & 3) - (a ^ 1)
    tl.store(y + i, tl.where(b > 0, b, ~b), mask=i < n)


def test_integer_semantics():
    x = torch.randint(0, 1000, (50,), dtype=torch.int32)
    y = torch.empty_like(x)
    integers[(1,)](x, y, 50, B=64)
    b = (x // 3) * 5 + x % 7 + (x >> 1) + (x << 2) + (x & 3) - (x ^ 1)
    assert torch.equal(y, torch.where(b > 0, b, ~b))


def test_loop_bounds_in_every_form():
    loop = interpreter.install().functions.range
    assert list(loop(3)) == list(loop(0, 3)) == list(loop(3, step=None)) == [0, 1, 2]
    assert list(loop(5, step=2)) == list(loop(0, 5, 2)) == list(loop(0, 5, step=2, num_stages=3)) == [0, 2, 4]
    assert list(loop(tl.constexpr(4), tl.constexpr(0), step=-2)) == [4, 2]


def test_importing_the_interpreter_changes_nothing():
    code = (
        "import triton.runtime.interpreter as upstream\n"
        "was = dict(vars(upstream))\n"
        "from tritonforge_worker import interpreter\n"
        "assert was == dict(vars(upstream))\n"
        "assert interpreter.install() is interpreter.install()\n"
        "assert {n for n in was if was[n] is not getattr(upstream, n)} == {'_get_np_dtype', '_validate_np_data_size'}\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "worker")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
