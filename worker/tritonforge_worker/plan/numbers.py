"""What .item() gives of a recorded tensor: a number that nobody knows while the plan is recorded.

Python's arithmetic with it becomes calls of torch, a torch call gets it as a tensor of no dimensions, and a kernel
reads it from memory by its first operation: every replay has the number of its own inputs. What Python needs the value
for (if, max(), a size, a grid) ends the recording.
"""

import operator

import torch
from torch.utils._pytree import tree_map

from tritonforge_worker.modules import tensors_in
from tritonforge_worker.plan.entry import PARAMETER, with_parameters
from tritonforge_worker.plan.places import place
from tritonforge_worker.plan.refusals import ON_HOST, NotAPlan

# Of what has each type in a plan: a number that Triton neither makes a constant of nor knows a divisor of (an integer
# as one of 32 bits), and its type in Triton IR.
STAND_INS = {torch.int64: (2147483629, "i64"), torch.float64: (0.5, "f64"), torch.bool: (True, "i8")}


def type_of(tensor):
    """That which has Python's numbers."""
    if tensor.dtype == torch.bool:
        return torch.bool
    return torch.float64 if tensor.is_floating_point() else torch.int64


def is_real(value):
    return isinstance(value, float) or (isinstance(value, Number) and value.tensor.dtype == torch.float64)


def calculated(operation, *given):
    """operation(*given) as Python calculates it."""
    if not all(isinstance(value, (bool, int, float, Number)) for value in given):
        return NotImplemented
    real = operation is operator.truediv or any(map(is_real, given))
    wide = torch.float64 if real else torch.int64
    return Number(operation(*(v.tensor.to(wide) if isinstance(v, Number) else v for v in given)))


def of_two(operation):
    return (
        lambda self, other: calculated(operation, self, other),
        lambda self, other: calculated(operation, other, self),
    )


class Number:
    def __init__(self, tensor):
        """`tensor`: of no dimensions, of a type of STAND_INS; nothing is written into it."""
        self.tensor = tensor
        place(tensor._meta, "cpu")  # beside another tensor it is where that one is

    @classmethod
    def of(cls, tensor):
        """A copy of it: what is written into it later does not change the number."""
        return cls(tensor.reshape(()).to(dtype=type_of(tensor), copy=True))

    __add__, __radd__ = of_two(operator.add)
    __sub__, __rsub__ = of_two(operator.sub)
    __mul__, __rmul__ = of_two(operator.mul)
    __truediv__, __rtruediv__ = of_two(operator.truediv)
    __floordiv__, __rfloordiv__ = of_two(operator.floordiv)
    __mod__, __rmod__ = of_two(operator.mod)
    __pow__, __rpow__ = of_two(operator.pow)
    __lt__, __gt__ = of_two(operator.lt)
    __le__, __ge__ = of_two(operator.le)
    __eq__, _ = of_two(operator.eq)
    __ne__, _ = of_two(operator.ne)
    __hash__ = object.__hash__

    def __neg__(self):
        return calculated(operator.neg, self)

    def __abs__(self):
        return calculated(operator.abs, self)

    def is_needed(self, *args):
        raise NotAPlan(ON_HOST)

    __bool__ = __int__ = __float__ = __index__ = __round__ = __trunc__ = __floor__ = __ceil__ = is_needed

    def __repr__(self):
        return "number(...)"

    def __format__(self, form):
        return repr(self)

    def beside(self, tensor):
        """The tensor that does in a call with another one what the number would: it widens no type."""
        if tensor is None:
            return self.tensor
        meta = getattr(tensor, "_meta", tensor)
        wanted = torch.result_type(meta, STAND_INS[self.tensor.dtype][0])
        return self.tensor if torch.result_type(meta, self.tensor._meta) == wanted else self.tensor.to(wanted)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        like = next(iter(tensors_in([*args, *(kwargs or {}).values()])), None)
        given = lambda value: value.beside(like) if isinstance(value, Number) else value  # noqa: E731
        return func(*tree_map(given, args), **tree_map(given, kwargs or {}))


def stand_in(value):
    return STAND_INS[value.tensor.dtype][0] if isinstance(value, Number) else value


def cast(name, source, wanted):
    """(operation, its operand's type, its result's) from what memory holds to what the kernel takes; None where it is
    the same."""
    to_real, from_real = "f" in wanted, source == "f64"
    if source == wanted:
        return None
    if from_real and not to_real:
        raise NotAPlan(f"argument '{name}' is an integer of the kernel's, the number is a float")
    if to_real:
        return "truncf" if from_real else "uitofp" if source == "i8" else "sitofp"
    return "trunci" if int(wanted[1:]) < int(source[1:]) else "extui"


def read_in_the_kernel(text, given):
    """The IR with pointers in place of numbers; `given`: (name, kind, value) of each parameter."""

    def changed(line):
        first = []
        for (name, _, value), match in reversed(list(zip(given, PARAMETER.finditer(line), strict=True))):
            if not isinstance(value, Number):
                continue
            own, wanted = match.groups()
            source = STAND_INS[value.tensor.dtype][1]
            operation = cast(name, source, wanted)
            read = f"{own}.read" if operation else own
            first.append(f"    {read} = tt.load {own}.base : !tt.ptr<{source}>")
            if operation:
                first.append(f"    {own} = arith.{operation} {read} : {source} to {wanted}")
            line = f"{line[: match.start()]}{own}.base: !tt.ptr<{source}>{line[match.end() :]}"
        return line, first

    return with_parameters(text, changed)
