"""What a problem's reference gives where it is not run as it is: the trusted side holds it against what it gives where
it is (src/evaluate/admission.h), to see whether right and wrong can be told apart."""

import collections
import contextlib
import copy
import functools
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tritonforge_worker import cuda_on_cpu, weights
from tritonforge_worker.modules import set_seed, tensors_in

# Makes another tensor of the same values; that it changes none says nothing.
_COPIES = {"clone", "_to_copy", "copy_", "view", "_unsafe_view", "reshape", "detach", "contiguous", "alias", "expand"}
_COPIES |= {"permute", "transpose", "t", "unsqueeze", "squeeze", "slice", "select", "lift_fresh"}

# What a piecewise operation is held against its bounds by; between and beyond them it is another one each.
_PIECEWISE = {
    "clamp": lambda x, min=None, max=None: (x, min, max),
    "hardtanh": lambda x, min_val=-1, max_val=1: (x, min_val, max_val),
    "hardswish": lambda x: (x, -3, 3),
    "hardsigmoid": lambda x: (x, -3, 3),
    "smooth_l1_loss": lambda a, b, reduction=1, beta=1.0: ((a - b).abs(), beta),
    "huber_loss": lambda a, b, reduction=1, delta=1.0: ((a - b).abs(), delta),
    "where": lambda condition, *_: (condition.float(), 0.5),
}
# Which operand of a product makes it zero.
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "convolution": 0}


# Of a sum's operands one is small beside the other one below this, and a factor hardly varies beside its mean; so many
# of the smallest are left out, one by one. So many inputs are another trial's, one by one. A function is near a
# polynomial of up to DEGREE below SMALL of what it varies by, of its first calls: those of a recurrence are alike.
SMALL, TERMS, INPUTS, DEGREE, CALLS = 0.05, 3, 8, 3, 8
# Of an input a quarter of the places along a dimension, those of the least gradient, are another trial's where that is
# below SMALL of the mean one. Outputs that move by less than this, of their root mean square, do not show it.
UNSEEN = 1e-6
# Outputs of so few numbers are drawn more than twice: by chance two of them are alike, or further apart than most.
FEW = 16


class Without(TorchDispatchMode):
    """A call one of whose operands is everywhere what `level` says of it: 0 of a term, or its mean."""

    def __init__(self, call, operand, level):
        super().__init__()
        self.left, self.operand, self.level = call, operand, level

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.left -= 1
        if self.left == 0:
            given = args[self.operand]
            if self.operand == 0 and func._schema.is_mutable:
                given.fill_(self.level(given))
            else:
                flat = torch.full_like(given, self.level(given))
                args = (*args[: self.operand], flat, *args[self.operand + 1 :])
        return func(*args, **(kwargs or {}))


class InEightBits(TorchDispatchMode):
    """Products of half precision whose operands are rounded to eight bits: a softmax of them hides it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.removeprefix("aten::") in _PRODUCTS:
            args = tree_map(in_eight_bits, args)
        return func(*args, **(kwargs or {}))


def in_eight_bits(value):
    if not is_half(value):
        return value
    most = torch.finfo(torch.float8_e4m3fn).max
    return value.clamp(-most, most).to(torch.float8_e4m3fn).to(value.dtype)


def is_half(value):
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


class ByPolynomial(TorchDispatchMode):
    """A call gives a polynomial of its operand: what most functions nearly are of numbers close to each other."""

    def __init__(self, call, operand, polynomial):
        super().__init__()
        self.left, self.operand, self.polynomial = call, operand, polynomial

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.left -= 1
        given = args[self.operand].double() if self.left == 0 else None
        out = func(*args, **(kwargs or {}))
        return out if given is None else out.copy_(self.polynomial(given))


def polynomials_of(x, y):
    """[(how far it is off beside what y varies by, polynomial)] of the first degrees, by least squares over some of the
    places."""
    every = x.numel() // 4096 + 1
    x, y = x.flatten()[::every].double(), y.flatten()[::every].double()
    middle, width, varies = x.mean(), x.std(), y.std()
    if len(x) < FEW or not 0 < width < math.inf or not 0 < varies < math.inf:
        return []

    def powers(tensor, degree):
        return torch.stack([((tensor - middle) / width) ** k for k in range(degree + 1)], -1)

    found = []
    for degree in range(1, DEGREE + 1):
        factors = torch.linalg.lstsq(powers(x, degree), y[:, None]).solution[:, 0]

        def polynomial(tensor, degree=degree, factors=factors):
            return powers(tensor, degree) @ factors

        found.append((size_of(polynomial(x) - y) / varies.item(), polynomial))
    return found


def is_identity(func, args, kwargs):
    """Of noise, too, as a mean over one place is: no inputs would show it, however they are drawn."""
    given = tensors_in([args, kwargs])
    if len(given) != 1:
        return False
    noise = 100 * noise_like(given[0])
    args, kwargs = tree_map(lambda value: noise.clone() if value is given[0] else value, (args, kwargs))
    try:
        return torch.equal(func(*args, **kwargs), noise)
    except RuntimeError:  # noise is not among what it takes: a factorisation's matrices, say
        return False


def noise_like(tensor):
    """Of a generator of its own: what a forward draws stays what it is."""
    with cuda_on_cpu.own_code():
        return torch.empty_like(tensor).normal_(generator=torch.Generator(tensor.device))


class HalfInside(TorchDispatchMode):
    """bfloat16 wherever an operation has tensors of over four times the outputs' size: a sum over many hides it."""

    def __init__(self, outputs):
        super().__init__()
        self.most, self.any = 4 * max((t.numel() for t in outputs), default=0), False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not any(a.alias_info for a in func._schema.arguments):  # no view, nothing that is written into
            if not self.is_large(args):
                out = func(*args, **kwargs)
                if not self.is_large(out):
                    return out
            args, self.any = tree_map(rounded, args), True
        return func(*args, **kwargs)

    def is_large(self, value):
        return any(t.numel() > self.most for t in tensors_in(value))


def size_of(operand):
    """Root mean square."""
    if not isinstance(operand, torch.Tensor):
        return abs(operand)
    return operand.double().square().mean().sqrt().item() if operand.is_floating_point() and operand.numel() else 0


def mean_of(tensor):
    return tensor.double().mean().item()


def rounded(value):
    whole = isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float64)
    return value.bfloat16().to(value.dtype) if whole else value


class Watch(TorchDispatchMode):
    """The operations of one forward: what made a tensor, and which left their first operand as it was."""

    def __init__(self):
        super().__init__()
        self.made, self.idle, self.alive = {}, [], []
        self.named = collections.Counter()  # calls so far
        self.calls, self.terms = 0, []  # (its share of the sum, number of the call, operand)
        self.products = []  # (number of the call, operand)
        self.factors = []  # (how much it varies beside its mean, number of the call, operand)
        self.curves = []  # (degree, how far a polynomial is off, number of the call, operand, polynomial)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        before = first.clone() if name.endswith("_") and first is not None else first
        self.calls += 1
        self.named[name] += 1
        called = name if self.named[name] == 1 else f"{name} {self.named[name]}"  # of two one may be idle
        if name.removesuffix("_") in ("add", "sub") and len(args) > 1:
            self.note_term(*args[:2], (kwargs or {}).get("alpha", 1))
        if name.removesuffix("_") in ("mul", "div"):
            self.note_factors(args[:2])
        if name in _PRODUCTS:
            self.products.append((self.calls, _PRODUCTS[name]))
        if name.removesuffix("_") in _PIECEWISE:
            self.note_bounds(called, name.removesuffix("_"), args, kwargs or {})
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            self.alive.append(tensor)
            self.made[id(tensor)] = (name, before)
        same = isinstance(out, torch.Tensor) and before is not None and out.shape == before.shape
        same = same and name not in _COPIES and out.dtype == before.dtype and out.is_floating_point()
        one = self.named[name] <= CALLS and torch.Tag.pointwise in func.tags and len(tensors_in([args, kwargs])) == 1
        if same and one:
            self.note_curve(before, out, next(k for k, a in enumerate(args) if isinstance(a, torch.Tensor)))
        if same and torch.equal(out, before) and not is_identity(func, args, kwargs or {}):
            self.idle.append(called)
        return out

    def note_bounds(self, called, name, args, kwargs):
        """The bounds of a piecewise operation that no element is beyond, or all are."""
        values, *bounds = _PIECEWISE[name](*args, **kwargs)
        for side, bound in enumerate(bounds):
            if bound is not None and ((values >= bound).all() or (values <= bound).all()):
                self.idle.append(f"{called}, bound {side}")

    def note_term(self, one, other, alpha):
        """The tensor of a sum that is small beside the other operand."""
        sizes = [size_of(one), abs(alpha) * size_of(other)]
        small = int(sizes[1] < sizes[0])
        if isinstance((one, other)[small], torch.Tensor) and 0 < sizes[small] < SMALL * sizes[1 - small]:
            self.terms.append((sizes[small] / sizes[1 - small], self.calls, small))

    def note_factors(self, operands):
        """The tensors of a product or quotient that are nearly the same everywhere."""
        for k, tensor in enumerate(operands):
            if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.numel() < 2:
                continue
            varies = size_of(tensor - tensor.mean()) / max(abs(mean_of(tensor)), 1e-30)
            if 0 < varies < SMALL:
                self.factors.append((varies, self.calls, k))

    def note_curve(self, given, out, operand):
        for degree, (off, polynomial) in enumerate(polynomials_of(given, out), start=1):
            if UNSEEN < off < SMALL:
                self.curves.append((degree, off, self.calls, operand, polynomial))

    def forget(self):
        """The tensors, among them the module's."""
        self.made.clear()
        self.alive.clear()

    def before_last(self, output):
        """What the last operation that computes was given, in the output's form; None where it had another one."""
        at = output
        for _ in range(64):
            name, given = self.made.get(id(at), ("", None))
            if given is None:
                return None
            if name not in _COPIES:
                return given.reshape(output.shape) if given.numel() == output.numel() else None
            at = given
        return None


def cast(value, dtype):
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(cast(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: cast(item, dtype) for key, item in value.items()}
    return value


def run(model, inputs, seed):
    set_seed(seed)
    with torch.no_grad():
        return tensors_in(model(*inputs))


def faint_parts(model, inputs, seed):
    """[(input, dimension, places)] that the outputs hardly depend on; of what has no gradient nothing is missing."""
    leaves = [x.detach().requires_grad_() if is_floating(x) else x for x in inputs]
    given = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]  # a forward may write into them
    set_seed(seed)
    outputs = [out for out in tensors_in(model(*given)) if out.requires_grad]
    known = [k for k, leaf in enumerate(leaves) if is_floating(leaf) and leaf.dim()]
    ways = [noise_like(out) for out in outputs]
    gradients = torch.autograd.grad(outputs, [leaves[k] for k in known], ways, allow_unused=True)
    found = []
    for k, gradient in zip(known, gradients):
        for dim in range(gradient.dim() if gradient is not None else 0):
            sizes = gradient.transpose(0, dim).reshape(gradient.shape[dim], -1).norm(dim=1)
            there = sizes.nonzero().flatten()
            faintest = there[sizes[there].argsort()][: len(there) // 4]
            if len(faintest) and sizes[faintest].max() < SMALL * sizes.mean():
                found.append((k, dim, faintest))
    return found


def is_floating(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def differ(outputs, expected):
    """By what anybody would see."""
    return any(
        size_of(a - b) > UNSEEN * size_of(b) if is_floating(b) else not a.equal(b) for a, b in zip(outputs, expected)
    )


def like(outputs, expected):
    """The outputs with the expected ones' types; None where they have other shapes."""
    if outputs is None or len(outputs) != len(expected):
        return None
    if any(a.shape != b.shape for a, b in zip(outputs, expected)):
        return None
    return [a.to(b.dtype) for a, b in zip(outputs, expected)]


def probes(model, plain, make_inputs, trials, forward_seed, around):
    """({name: outputs}, [operations that changed nothing]) of one trial; what cannot be run so is left out.

    `plain` is the module without weights.redrawn; `make_inputs(trial)` gives the inputs of one of `trials`.
    """

    def fresh():  # what a forward changes in a module (running statistics) shall be the same for each
        return copy.deepcopy(model)

    with around():
        watch, watched, inputs = Watch(), fresh(), make_inputs(0)
        with watch:
            expected = run(watched, inputs, forward_seed)
        last = [watch.before_last(output) for output in expected]
        found = {
            "given": tensors_in(make_inputs(0)),
            "expected": expected,
            "other": run(fresh(), make_inputs(1), forward_seed),
            "without_last": like(last, expected) if all(tensor is not None for tensor in last) else None,
        }
        watch.forget()
        del watched, last  # a module of its own, as each of those to come

        def attempt(name, prepare, inputs=lambda: make_inputs(0), mode=None):
            try:
                given, prepared = inputs(), prepare()
                with mode or contextlib.nullcontext():
                    found[name] = like(run(prepared, given, forward_seed), expected)
            except Exception:  # an operation that is not there in this type
                pass

        def inputs_in(dtype):
            return lambda: cast(make_inputs(0), dtype)

        def inputs_with(other):
            return lambda: [b if k == other else a for k, (a, b) in enumerate(zip(make_inputs(0), make_inputs(1)))]

        def with_part(k, dim, places):
            given, other = make_inputs(0), make_inputs(1)
            given[k].index_copy_(dim, places, other[k].index_select(dim, places))
            return given

        def parts():  # in float64 what a recurrence forgot long ago still has a gradient
            for dtype in (torch.float64, torch.float32):
                try:
                    return faint_parts(fresh().to(dtype), inputs_in(dtype)(), forward_seed)
                except Exception:  # an operation that is not there in this type, or has no gradient
                    pass
            return []

        attempt("float64", lambda: fresh().double(), inputs_in(torch.float64))
        attempt("half", lambda: fresh().bfloat16(), inputs_in(torch.bfloat16))
        if weights.state_of(model):
            attempt("default_weights", lambda: plain)
        half_inside = HalfInside(expected)
        attempt("half_inside", fresh, mode=half_inside)
        if not half_inside.any:
            found["half_inside"] = None
        if any(map(is_half, expected)):
            attempt("without_term.eight bits", fresh, mode=InEightBits())
        left_out = [(*term[1:], lambda tensor: 0) for term in sorted(watch.terms)[:TERMS]]
        left_out += [(*product, lambda tensor: 0) for product in watch.products[:TERMS]]
        left_out += [(*factor[1:], mean_of) for factor in sorted(watch.factors)[:TERMS]]
        for k, (call, operand, level) in enumerate(left_out):
            attempt(f"without_term.{k}", fresh, mode=Without(call, operand, level))
        for degree in range(1, DEGREE + 1):
            nearest = sorted(curve[1:] for curve in watch.curves if curve[0] == degree)[:TERMS]
            for k, (_, *curve) in enumerate(nearest):
                attempt(f"polynomial.{degree}.{k}", fresh, mode=ByPolynomial(*curve))
        for k in range(min(len(inputs), INPUTS) if len(inputs) > 1 else 0):
            attempt(f"without_term.input {k}", fresh, inputs_with(k))
        for k, dim, places in parts():
            name = f"without_term.input {k}, dimension {dim}"
            attempt(name, fresh, lambda k=k, dim=dim, places=places: with_part(k, dim, places))
            if (left_out := found.get(name)) and not differ(left_out, expected):
                watch.idle.append(f"input {k}, {len(places)} places of dimension {dim}")
        if sum(tensor.numel() for tensor in expected) <= FEW:
            for trial in range(2, trials):
                attempt(f"other.{trial}", fresh, functools.partial(make_inputs, trial))
    return {name: outputs for name, outputs in found.items() if outputs is not None}, watch.idle
