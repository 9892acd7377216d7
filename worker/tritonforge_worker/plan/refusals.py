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


def host(what):
    raise NotAPlan(f"the code {what}")
