"""What ends a recording, and the line that says why and what to write in place of it."""


class HostPointer(ValueError):
    """Memory that no GPU sees, given to a launch, as Triton refuses it, or back as an output."""


class NotAPlan(BaseException):
    """Why this code cannot be recorded, in one line. Not an Exception: candidate code must not swallow it."""


ON_HOST = (
    "the value of a tensor is needed on the host (if, assert, max(), int(), float(), a size, a grid): it must stay on "
    "the device, by torch.where in place of if and .clamp(min=1) in place of max(); a kernel or a torch call is given "
    "the tensor itself, or its .item() as it is"
)
OF_DATA = (
    "no shape without data: how many results there are depends on the inputs (x[mask], nonzero, unique): keep all "
    "places and torch.where(mask, x, 0), or have a kernel write into memory for as many as there can be"
)
ADDRESS = (
    "a kernel is given an address (data_ptr()), and a replay's tensors have others: give it the tensors themselves, of "
    "many a tuple, which a kernel takes as one argument and indexes by a tl.constexpr (tl.static_range)"
)


def no_dtype(dtype):
    instead = (
        "hold real and imaginary parts in two tensors of floats"
        if dtype.is_complex
        else "hold it in one of int8, uint8 or int32, and take it for another in a kernel (.to(dtype, bitcast=True))"
    )
    return NotAPlan(f"a tensor of dtype {dtype}, which no plan has: {instead}")


def host(what):
    raise NotAPlan(f"the code {what}")
