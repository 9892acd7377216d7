"""How one tensor's memory is seen as another's: the torch call that a person would write for it."""

import math


def strides_of(size):
    """Of a contiguous tensor."""
    strides, step = [], 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def is_contiguous(size, stride):
    return all(s == c or n == 1 for n, s, c in zip(size, stride, strides_of(size)))


def tuple_text(values):
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def viewed(text, size):
    return f"{text}.view({', '.join(map(str, size))})" if size else f"{text}.view(())"


def permutation(size, stride):
    """(sizes from the outermost in memory, the order in which they are the tensor's); None where memory is skipped or
    read twice."""
    order = sorted(range(len(size)), key=lambda d: (-stride[d], d))
    inner = [size[d] for d in order]
    if not is_contiguous(inner, [stride[d] for d in order]):
        return None
    return inner, [order.index(d) for d in range(len(size))]


def reinterpreted(text, base, size, stride, offset):
    """`text`, whose layout is `base` (size, stride; None: not known), as a tensor of another layout."""
    if base is None:
        return f"torch.as_strided({text}, {tuple_text(size)}, {tuple_text(stride)}, {offset})"
    if offset == 0 and (size, stride) == base:
        return text
    if offset == 0 and len(size) == 2 and base == (size[::-1], stride[::-1]):
        return f"{text}.t()"
    if offset == 0 and is_contiguous(*base) and math.prod(size) == math.prod(base[0]):
        if is_contiguous(size, stride):
            return viewed(text, size)
        found = permutation(size, stride)
        if found:
            inner, order = found
            whole = text if tuple(inner) == base[0] else viewed(text, inner)
            return f"{whole}.t()" if order == [1, 0] else f"{whole}.permute({', '.join(map(str, order))})"
    return f"torch.as_strided({text}, {tuple_text(size)}, {tuple_text(stride)}, {offset})"
