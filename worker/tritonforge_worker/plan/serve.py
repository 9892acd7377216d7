"""Role U of plan mode: loads the candidate and records its forward. Sent no weights, no inputs, no trial's seed."""

import torch

from tritonforge_worker import candidate, errors, reduce
from tritonforge_worker.languages import language
from tritonforge_worker.plan import recorder
from tritonforge_worker.plan.tensors import NotAPlan
from tritonforge_worker.protocol import decode


class Recorder(candidate.Candidate):
    def around(self, poison):
        return reduce.OnMeta() if self.meta else super().around(poison)

    def load(self, request, payload):
        """`meta`: at the problem's own sizes, without data; only the launches are of interest then."""
        self.meta, self.targets = request.get("meta", False), request["targets"]
        self.language = language(request["language"])
        self.language.install()
        super().load(request, payload)

    def take_weights(self, names, tensors):
        return [] if self.meta else super().take_weights(names, tensors)

    def recorded(self, record):
        try:
            plan, parts = record()
        except NotAPlan as reason:
            return self.channel.send({"not_a_plan": str(reason)[:500]})
        except BaseException as error:
            # The candidate's own failure, or something that recording does not know: the other mode tells them apart.
            text = f"recording: {type(error).__name__}: {error}"[:500]
            failed = errors.describe(error, "forward", self.path, self.source)
            return self.channel.send({"not_a_plan": text, "failed": failed})
        self.channel.send({"plan": plan}, parts)

    def record(self, request, payload):
        known, call = dict(request["weights"]), (request["inputs"], request["tensors"])
        self.recorded(
            lambda: recorder.record(self.model, known, *call, decode, self.path, self.targets, self.language.Launches)
        )

    def kernels(self, request, payload):
        call = request["inputs"], request["tensors"]
        self.recorded(
            lambda: recorder.kernels(self.model, *call, decode, self.path, self.targets, self.language.Launches)
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
