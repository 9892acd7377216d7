"""What the problem's forward has torch do, recorded to be weighed and not to be replayed (src/evaluate/plan/work.h).

The same recorder over tensors with data: whatever torch does with them is recorded, operations that no plan may have,
values that are needed on the host and complex numbers included. Its results come from R, which runs no candidate.
"""

import torch

from tritonforge_worker.plan import recorder
from tritonforge_worker.plan.mode import Record
from tritonforge_worker.plan.refusals import NotAPlan
from tritonforge_worker.plan.tensors import DTYPES, Recording, encode

# Of numbers that a plan has no name for; complex ones are pairs of real ones, in a dimension before the others.
OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
PAIRS_OF = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


class Weighing(Recording):
    def __init__(self, device):
        super().__init__()
        self.device, self.given = device, 0

    def check(self, name, kwargs):
        pass

    def encode(self, value):
        if isinstance(value, (list, tuple)):
            return [self.encode(item) for item in value]
        try:
            return encode(value)
        except NotAPlan:
            return None  # tells nothing of an operation's work

    def no_tensor(self, name, result):
        return None

    def item(self, tensor):
        return torch.Tensor.item(tensor)

    def value(self, data, source=None):
        if data.layout != torch.strided:
            raise NotAPlan(f"a tensor of layout {data.layout}")
        pair = PAIRS_OF.get(data.dtype)
        dtype = pair or (data.dtype if data.dtype in DTYPES else OF_SIZE[data.element_size()])
        shape, stride = ([2] if pair else []) + list(data.shape), ([1] if pair else []) + list(data.stride())
        self.values.append({"dtype": DTYPES[dtype], "shape": shape, "stride": stride, **(source or {})})
        return len(self.values) - 1

    def like(self, tensor):
        return tensor

    def constant(self, tensor):
        found = next((rec for real, rec in self.constants if real is tensor), None)
        if found is None:
            self.given += 1
            found = self.tensor(tensor.to(self.device), {"input": self.given - 1})
            self.constants.append((tensor, found))
        return found


def weigh(model, inputs, device):
    """The calls of model(*inputs) as a plan without weights, constants and outputs; model is of no use afterwards."""
    recording = Weighing(device)
    inputs = [recording.constant(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    recorder.replace_state(recording, model, {})
    with torch.no_grad(), recorder.AsGpu(False), Record(recording):
        model(*inputs)
    recording.constants.clear()
    return recorder.as_plan(recording, None, recording.given)[0]
