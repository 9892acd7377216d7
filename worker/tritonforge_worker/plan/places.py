"""Where tensors would be on a machine with a GPU: here all are on the host, or have no memory.

A place is "cuda", "cpu", or "pinned" for memory of the host's that kernels reach. It is a storage's, and its views'.
"""

from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.multiprocessing.reductions import StorageWeakRef

from tritonforge_worker.cuda_on_cpu import device_of, is_device, own_code

_places = {}  # of a storage's number: what keeps it from being another's, and the place


def storage_of(tensor):
    """None for what has no single one, as a sparse tensor."""
    with own_code():
        while is_functorch_wrapped_tensor(tensor):  # within torch.vmap
            tensor = get_unwrapped(tensor)
        try:
            return tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None


def place(tensor, where):
    if (storage := storage_of(tensor)) is not None:
        _places[storage._cdata] = StorageWeakRef(storage), where


def place_of(tensor, otherwise):
    storage = storage_of(tensor)
    return "cuda" if storage is None else _places.get(storage._cdata, (None, otherwise))[1]


def whereabouts(tensor):
    """The place of a recorded tensor (tensors.py) or of another: that one the host makes unless told otherwise, and one
    without data stands for any."""
    if hasattr(type(tensor), "_place"):
        return tensor._place
    with own_code():
        return place_of(tensor, "cpu" if tensor.device.type == "cpu" else "cuda")


def is_on_host(tensor):
    return whereabouts(tensor) != "cuda"


def is_elsewhere(tensor, device):
    """Whether .to(device) copies. What is asked for may be no device, or "meta"."""
    asked = device_of(device).type if is_device(device) else None
    return asked in ("cpu", "cuda") and (asked == "cpu") != is_on_host(tensor)
