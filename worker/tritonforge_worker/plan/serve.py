"""Role U of plan mode: loads the candidate and records its forward. Sent no inputs, no trial's seed, and of the weights
those alone that are one number."""

import os
import traceback

import torch

from tritonforge_worker import candidate, errors, reduce, targets
from tritonforge_worker.cuda_on_cpu import CUDA, NoSuchDevice
from tritonforge_worker.languages import language
from tritonforge_worker.plan import recorder
from tritonforge_worker.plan.places import place
from tritonforge_worker.plan.refusals import HostPointer, NotAPlan
from tritonforge_worker.protocol import Unsupported, decode, split_payload, to_tensor

CUDA_MODULES = os.path.join("torch", "cuda", "")


def of_the_device(error):
    """Whether it may be that of a GPU that is not here."""
    if isinstance(error, NoSuchDevice):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return "cuda" in str(error).lower() or any(CUDA_MODULES in file for file in files)


def numbers_of(named, payload):
    described = [item for _, item in named]
    parts = split_payload(described, payload)
    return {name: to_tensor(item, data) for (name, item), data in zip(named, parts)}


class Recorder(candidate.Candidate):
    def load(self, request, payload):
        """`meta`: at the problem's own sizes, without data; only the launches are of interest then."""
        self.meta, self.targets = request.get("meta", False), request["targets"]
        self.language = language(request["language"])
        self.language.install()
        torch.distributions.Distribution.set_default_validate_args(False)  # by values that are not there
        if request.get("small_dots"):
            targets.take_small_dots()
        super().load(request, payload)

    def around(self, poison):
        return reduce.OnMeta() if self.meta else recorder.Placed()

    def init_of(self, request, tensors):
        """On the GPU, where KernelBench has them."""
        for tensor in tensors:
            place(tensor, "cuda")
        return super().init_of(request, tensors)

    def on_device(self, model):
        """As KernelBench does now and did before: a module may have its own of either, for what else it keeps."""
        with self.around(False):
            return model.cuda().to(device=CUDA)

    def compiled(self, kernel, payload):
        """What a constructor launches or warms up is no part of the plan."""

    def take_weights(self, names, tensors):
        return [] if self.meta else super().take_weights(names, tensors)

    def failed(self, error, stage):
        super().failed(error, stage, own=not of_the_device(error))

    def recorded(self, record, failure):
        """`failure(error, failed)`: what else is told of what record raises, and its payload."""
        try:
            plan, parts = record()
            return self.channel.send({"plan": plan}, parts)
        except NotAPlan as reason:
            return self.channel.send({"not_a_plan": str(reason)[:500]})
        except Unsupported as reason:
            return self.channel.send({"not_a_plan": f"the plan is a {reason}"})
        except BaseException as error:
            text = f"recording: {type(error).__name__}: {error}"[:500]
            failed = errors.describe(error, "forward", self.path, self.source)
            more, parts = failure(error, failed)
            self.channel.send({"not_a_plan": text, "failed": failed, **more}, parts)

    def record(self, request, payload):
        known, call = dict(request["weights"]), (request["inputs"], request["tensors"])
        rest = decode, self.path, self.targets, self.language.Launches
        forward = recorder.Forward(self.model, known, *call, *rest, numbers_of(request["numbers"], payload))

        def failure(error, failed):
            """The candidate's own, or of something that recording does not know."""
            if not self.fails_alike(error, failed["line"], call, rest):
                return {}, ()
            plan, parts = recorder.kernels_of(forward)
            return {"own": True, "plan": plan}, parts

        self.recorded(lambda: recorder.plan_of(forward, self.language.Launches.host_memory), failure)

    def fails_alike(self, error, line, call, rest):
        """Whether the call over plain tensors raises the same."""
        if of_the_device(error):
            return False
        if isinstance(error, HostPointer):
            return True
        again = recorder.failure_on_cpu(self.model, *call, *rest)
        return type(again) is type(error) and errors.describe(again, "forward", self.path, self.source)["line"] == line

    def kernels(self, request, payload):
        call = request["inputs"], request["tensors"]
        self.recorded(
            lambda: recorder.kernels(self.model, *call, decode, self.path, self.targets, self.language.Launches),
            lambda error, failed: ({}, ()),
        )

    def serve(self):
        operations = {"load": self.load, "record": self.record, "kernels": self.kernels}
        while True:
            request, payload = self.channel.receive()
            operations[request["op"]](request, payload)


def serve(channel, sandbox):
    Recorder(channel, sandbox).serve()


def warm_up():
    """First use of meta kernels and of the dispatch mode; children inherit them."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    described = [{"dtype": "float32", "shape": [4, 8], "order": [0, 1]}]
    recorder.record(model, {}, {"list": [{"tensor": 0}]}, described, decode, "")
