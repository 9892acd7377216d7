"""The evaluator of Triton IR: shapes, reductions, scans, control flow and memory (triton_ir.py says how)."""

import os

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl

import triton_ir
from triton_ir import BESIDE_GPU, FLOATS, agree, both

if not os.path.exists(triton_ir.IR_RUN):
    pytest.skip(f"no {triton_ir.IR_RUN}", allow_module_level=True)

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
        # In whatever order, the same of places and values.
        places = tl.cat(r, r + M, can_reorder=True)
        tl.store(o + places, tl.cat(tl.sum(a, 1), tl.max(a, 1), can_reorder=True))
    elif OP == "reorder":
        tl.store(o + flat, tl.reshape(tl.trans(a), (M * N,), can_reorder=True))
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
        "reorder",
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
    if op in ("cat", "reorder"):  # in any order
        expected, got = [[t.sort().values for t in side] for side in (expected, got)]
    # Sums of up to 128 numbers of size 1, in another order than numpy's.
    agree(expected, got, exact=op not in ("broadcast", "cat"), rtol=1e-6, atol=1e-5)


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
@pytest.mark.parametrize("op", ["sum", "max", "min", "argmax", "argmin", "max_index", "xor", "pair"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 64), (32, 8), (1, 16)])
def test_reductions(runner, op, axis, dtype, shape):
    if op == "xor" and dtype.is_floating_point:
        pytest.skip("integers only")
    torch.manual_seed(3)
    x = torch.randint(-4, 5, shape).to(dtype)
    kept = shape[0] if axis == 1 else shape[1]
    out = torch.zeros(kept, dtype=dtype)
    expected, got, _ = both(runner, reduce_kernel, (1,), [x, out], M=shape[0], N=shape[1], AXIS=axis, OP=op)
    agree(expected, got)


def test_what_a_reduction_combines_has_no_order(runner):
    """As on a GPU, where it goes from lane to lane; the interpreter's has the order of its arguments."""
    x, o = torch.randn(1, 16, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    runner.launch(reduce_kernel, (1,), [x, o], {"M": 1, "N": 16, "AXIS": 1, "OP": "ordered"})
    product, total = x[0, 0], torch.ones((), dtype=torch.float64)
    for value in x[0, 1:]:
        product, total = product * value, total * value + 1
    assert not torch.isclose(o[0], product + total)


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
        a = tl.load(x + i, mask=i < n, other=-7.0, eviction_policy="evict_last")
    else:
        a = tl.load(x + i, mask=i < n, cache_modifier=".cg")
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
def descriptor_atomics_kernel(x, o, M, N, B: tl.constexpr, OP: tl.constexpr):
    d = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    e = tl.make_tensor_descriptor(o, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    a = d.load([0, 0])
    if OP == "add":
        e.atomic_add([0, 8], a)
    elif OP == "max":
        e.atomic_max([0, 8], a)
    elif OP == "min":
        e.atomic_min([0, 8], a)
    elif OP == "and":
        e.atomic_and([0, 8], a)
    elif OP == "or":
        e.atomic_or([0, 8], a)
    elif OP == "xor":
        e.atomic_xor([0, 8], a)


@pytest.mark.parametrize(
    "op, dtype, apply",
    [
        ("add", torch.int32, torch.add),
        ("add", torch.float32, torch.add),
        ("add", torch.float16, torch.add),
        ("max", torch.int32, torch.maximum),
        ("min", torch.int64, torch.minimum),
        ("and", torch.int32, torch.bitwise_and),
        ("or", torch.int64, torch.bitwise_or),
        ("xor", torch.int32, torch.bitwise_xor),
    ],
)
def test_atomics_through_tensor_descriptors(runner, op, dtype, apply):
    """The interpreter has none. Two programs; rows beyond the tensor are left out."""
    if BESIDE_GPU and (op, dtype) == ("or", torch.int64):
        pytest.skip("an H200 has no such instruction, and says so by an error that ends the context")
    x, o = torch.randint(1, 99, (12, 40)).to(dtype), torch.full((12, 40), 50, dtype=dtype)
    expected = o.clone()
    for _ in range(2):
        expected[:, 8:24] = apply(expected[:, 8:24], x[:, :16])
    reply = runner.launch(descriptor_atomics_kernel, (2,), [x, o, 12, 40], {"B": 16, "OP": op})
    assert not reply.get("error") and not reply.get("findings"), reply
    agree([expected], [o])


@triton.jit
def collatz(a, b):
    steps = 0
    while a > 1:
        a = a // 2 if a % 2 == 0 else 3 * a + 1
        steps += 1
    if steps > 10:
        return steps, b
    return steps + 100, b * 2.0


@triton.jit
def mapped_kernel(x, y, o, p, N: tl.constexpr):
    i = tl.arange(0, N)
    steps, twice = tl.map_elementwise(collatz, tl.load(x + i), tl.load(y + i))
    tl.store(o + i, steps)
    tl.store(p + i, twice)


def test_a_scalar_function_over_a_block_may_branch_and_loop(runner):
    """tl.map_elementwise, which the interpreter does not have."""

    def steps_of(a):
        steps = 0
        while a > 1:
            a, steps = a // 2 if a % 2 == 0 else 3 * a + 1, steps + 1
        return steps

    x, y = torch.arange(1, 65, dtype=torch.int32), torch.randn(64)
    o, p = torch.zeros_like(x), torch.zeros_like(y)
    reply = runner.launch(mapped_kernel, (1,), [x, y, o, p], {"N": 64})
    assert not reply.get("error") and not reply.get("findings"), reply
    steps = torch.tensor([steps_of(a) for a in x.tolist()], dtype=torch.int32)
    agree([torch.where(steps > 10, steps, steps + 100), torch.where(steps > 10, y, y * 2)], [o, p])


@triton.jit
def print_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.device_print("a", a, hex=True)
    tl.device_print("no operand")
    tl.store(o + i, a + 1)


def test_what_a_kernel_prints_changes_nothing(runner):
    x, o = torch.randn(32), torch.zeros(32)
    reply = runner.launch(print_kernel, (1,), [x, o], {"N": 32})
    assert not reply.get("error"), reply
    agree([x + 1], [o])


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
