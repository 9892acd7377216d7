"""Tensor descriptors that the host makes and gives a kernel, as what a plan can bind: tensor, sizes and strides.

The kernel's Triton IR is given the same descriptor, made by the kernel's first operation (tl.make_tensor_descriptor).
"""

import re

from triton.tools.tensor_descriptor import TensorDescriptor

from tritonforge_worker.plan.entry import with_parameters
from tritonforge_worker.plan.refusals import NotAPlan

LOCATION = r"(?: loc\((?:#\w+|\"[^\"]*\"(?:\(#\w+\))?)\))?"
GIVEN = re.compile(
    rf"(%[\w.$-]+): !tt\.tensordesc<tensor<((?:\d+x)+)(\w+)>>({LOCATION}(?:, %[\w.$-]+: i(?:32|64){LOCATION})*)"
)
NAME = re.compile(r"(%[\w.$-]+): i(?:32|64)")


def is_descriptor(value):
    return isinstance(value, TensorDescriptor)


def parts(name, descriptor):
    """(tensor, sizes and strides), in the order in which the IR has them."""
    if descriptor.padding != "zero":
        raise NotAPlan(f"argument '{name}' is a tensor descriptor with padding '{descriptor.padding}'")
    return descriptor.base, [*descriptor.shape, *descriptor.strides]


def made_in_the_kernel(text):
    """The IR with pointers in place of the descriptors that its kernel is given."""
    made = []

    def pointer(match):
        name, sizes, element, rest = match.groups()
        rank, numbers = sizes.count("x"), NAME.findall(rest)
        shape, strides = ", ".join(numbers[:rank]), ", ".join(numbers[rank : 2 * rank])
        made.append(
            f"    {name} = tt.make_tensor_descriptor {name}.base, [{shape}], [{strides}] : "
            f"<{element}>, <tensor<{sizes}{element}>>"
        )
        return f"{name}.base: !tt.ptr<{element}>{rest}"

    return with_parameters(text, lambda line: (GIVEN.sub(pointer, line), made))
