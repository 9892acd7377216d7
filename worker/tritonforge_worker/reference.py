"""Role R: runs the problem's own code (data from outside, too): init arguments, weights, inputs, expected outputs."""

import contextlib

import torch

from tritonforge_worker import controls, cuda_on_cpu, errors, live, reduce, weights
from tritonforge_worker.modules import repeats_elements, run_source, set_seed, tensors_in
from tritonforge_worker.plan import recorder, weighing
from tritonforge_worker.protocol import Encoder, Sampled, Unsupported, by_key, decode


class Reference:
    def __init__(self, channel, sandbox):
        self.channel, self.folder, self.live = channel, sandbox["folder"], sandbox["gpu"]
        self.slots, self.reduced = {}, {}
        if not self.live:
            cuda_on_cpu.install()

    def around(self):
        return live.Around() if self.live else cuda_on_cpu.CudaOnCpu()

    def failed(self, error, stage, source):
        self.channel.send(
            {"failed": errors.describe(error, stage, self.folder + "/problem.py", source), "stage": stage}
        )

    def problem(self, request, payload):
        source, sizes, full = request["source"], {}, None
        try:
            compile(source, "problem.py", "exec")
            if request.get("budget"):
                source, sizes, full = self.within(source, request["budget"])
            with self.around():
                self.module = run_source(source, "problem", self.folder)
                for name in ("Model", "get_inputs"):
                    if not hasattr(self.module, name):
                        raise ImportError(f"the problem defines no {name}")
                set_seed(request["seed"])
                init = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
                encoder = Encoder()
                with cuda_on_cpu.own_code():
                    tree = encoder.value(list(init))
                self.model = self.make_model(init, request["seed"], weights.SPREAD)
                self.plain = self.make_model(init, request["seed"], 0) if request["probe"] else None
            # Larger ones are not handed on: reference and candidate draw them from the same seed.
            size = sum(t.numel() * t.element_size() for t in weights.state_of(self.model).values())
            if handed := size <= request["max_state"]:
                weights.redraw(self.model, request["weight_seed"], request["large_weights"])
            if self.live:
                self.model = self.model.cuda()
                self.plain = self.plain and self.plain.cuda()
            names = []
            if handed:
                self.call_before_trials(request["weight_seed"])
                for name, tensor in weights.state_of(self.model).items():
                    names.append([name, encoder.value(tensor)["tensor"]])
        except BaseException as error:
            return self.failed(error, "problem", source)
        self.channel.send(
            {"problem": True, "init": tree, "tensors": encoder.tensors, "state": names, "sizes": sizes, "full": full},
            encoder.payload,
        )

    def call_before_trials(self, seed):
        """What buffers begin with, zeros of a moving mean, would let a candidate do without them: each trial is a first
        call. A forward that fails says so in its trial."""
        if not isinstance(self.model, torch.nn.Module) or not any(True for _ in self.model.buffers()):
            return
        with contextlib.suppress(Exception), torch.no_grad():
            inputs = self.drawn_inputs(seed, "as_given")
            with self.around():
                self.model(*inputs)

    def within(self, source, budget):
        """The source within the budget, its sizes, and its forms as it stands; a problem is loaded more than once."""
        key = budget["elements"], budget["flops"]
        if key not in self.reduced:
            smaller, sizes, outputs = reduce.reduced(source, budget, self.folder)
            self.reduced[key] = smaller, sizes, reduce.forms(source, self.folder, outputs) if sizes else None
        return self.reduced[key]

    def make_model(self, init, seed, spread):
        set_seed(seed)
        with weights.redrawn(spread):
            return self.module.Model(*init)

    def make_inputs(self, seed, draw, handed=True):
        """Not `handed`: from torch's own generator alone, where the default device is, as a plan of it draws them."""
        set_seed(seed)
        inputs = list(self.module.get_inputs())
        if draw not in ("signed", "wide"):
            return inputs
        generator = torch.Generator().manual_seed(seed) if handed else None
        return [weights.wide(x, draw, generator) if isinstance(x, torch.Tensor) else x for x in inputs]

    def drawn_inputs(self, seed, draw):
        with torch.device("cuda" if self.live else "cpu"), self.around():
            inputs = self.make_inputs(seed, draw, handed=False)
        return [x.cuda() if self.live and isinstance(x, torch.Tensor) else x for x in inputs]

    def probe(self, request, payload):
        """What admission asks for (controls.py); the model stays as it is."""

        def inputs(trial):
            made = self.make_inputs(request["seeds"][trial], request["inputs"])
            return [x.cuda() if self.live and isinstance(x, torch.Tensor) else x for x in made]

        try:
            trials, forward_seed = len(request["seeds"]), request["forward_seed"]
            found, idle = controls.probes(self.model, self.plain, inputs, trials, forward_seed, self.around)
            encoder = Encoder()
            for outputs in found.values():
                encoder.value(outputs)
            if (size := sum(map(len, encoder.payload))) > request["max_bytes"]:
                raise ValueError(
                    f"the outputs by which it is admitted are {size / 1e9:.1f} GB, at most "
                    f"{request['max_bytes'] / 1e9:.1f} GB are compared: sizes that are assigned to names at the top of "
                    "the file, as KernelBench's are, are made smaller for this"
                )
        except Unsupported as error:
            return self.failed(TypeError(f"the problem uses a {error}"), "problem", "")
        except BaseException as error:
            return self.failed(error, "problem", "")
        runs = [[name, len(outputs)] for name, outputs in found.items()]
        self.channel.send({"runs": runs, "idle": idle, "tensors": encoder.tensors}, encoder.payload)

    @weights.first_call
    def trial(self, request, payload):
        try:
            with self.around():
                inputs = self.make_inputs(request["seed"], request["inputs"])
            encoder = Encoder()
            tree = encoder.value(inputs)
            count = len(encoder.tensors)
            if self.live:
                inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in inputs]
            else:  # forward may write into what the payload shows
                encoder.payload = [bytes(data) for data in encoder.payload]
            set_seed(request["forward_seed"])
            with torch.no_grad(), self.around():
                outputs = self.model(*inputs)
            if self.live:
                live.synchronize()
            owners = {t.untyped_storage().data_ptr() for t in tensors_in(inputs)}
            for tensor in tensors_in(inputs):
                encoder.value(tensor)
            changed = len(encoder.tensors)
            out = encoder.value(by_key(outputs))
            if (size := sum(map(len, encoder.payload))) > request["max_bytes"]:
                raise ValueError(
                    f"its inputs and outputs are {size / 1e9:.1f} GB, and at most {request['max_bytes'] / 1e9:.1f} GB "
                    "are handed from process to process; mode plan draws larger ones on a GPU (--trial-data)"
                )
            self.send_trial(encoder, tree, count, changed, out, owners)
        except Unsupported as error:
            return self.failed(TypeError(f"the problem uses a {error}"), "problem", "")
        except BaseException as error:
            return self.failed(error, "problem", "")

    def send_trial(self, encoder, tree, count, changed, out, owners):
        made = encoder.objects[changed:]
        storages = [t.untyped_storage().data_ptr() for t in made]
        self.channel.send(
            {
                "trial": True,
                "inputs": tree,
                "input_tensors": count,
                "outputs": out,
                "tensors": encoder.tensors,
                "after_tensors": changed - count,
                "aliases": [storage in owners for storage in storages],
                "repeats": [repeats_elements(t) for t in made],
                "by_row": [t.is_contiguous() for t in made],
                "shared": [storage in storages[:i] for i, storage in enumerate(storages)],
            },
            encoder.payload,
        )

    def draw(self, request, payload):
        """get_inputs as a plan; nothing is drawn."""
        try:
            plan, parts = recorder.inputs(lambda: self.make_inputs(0, request["inputs"], handed=False))
        except BaseException as error:
            return self.channel.send({"not_a_plan": f"{type(error).__name__}: {error}"[:500]})
        self.channel.send({"plan": plan}, parts)

    @weights.first_call
    def sample(self, request, payload):
        """A trial as it is drawn, of which these elements are handed over (src/evaluate/plan/drawn.h)."""
        encoder = Sampled(request["fractions"])
        try:
            inputs = self.drawn_inputs(request["seed"], request["inputs"])
            tree = encoder.value(inputs)
            count = len(encoder.tensors)
            set_seed(request["forward_seed"])
            with torch.no_grad(), self.around():
                outputs = self.model(*inputs)
            owners = {t.untyped_storage().data_ptr() for t in tensors_in(inputs)}
            for tensor in tensors_in(inputs):
                encoder.value(tensor)
            changed = len(encoder.tensors)
            out = encoder.value(by_key(outputs))
            self.send_trial(encoder, tree, count, changed, out, owners)
        except Unsupported as error:
            return self.failed(TypeError(f"the problem uses a {error}"), "problem", "")
        except BaseException as error:
            return self.failed(error, "problem", "")
        del inputs, outputs, owners, encoder
        if self.live:
            torch.cuda.empty_cache()

    def record(self, request, payload):
        """What forward has torch do, as a plan of a trial's shapes."""
        try:
            known = {name: {"shape": list(tensor.shape)} for name, tensor in weights.state_of(self.model).items()}
            call = request["inputs"], request["tensors"]
            plan, parts = recorder.record(self.model, known, *call, decode, "")
        except BaseException as error:  # NotAPlan, and whatever the problem's code does over recorded tensors
            return self.channel.send({"not_a_plan": f"{type(error).__name__}: {error}"[:500]})
        self.channel.send({"plan": plan}, parts)

    def weigh(self, request, payload):
        """The same where it is no plan, over a trial's data: what torch does there is counted, and replayed nowhere."""
        try:
            with self.around():
                inputs = self.make_inputs(request["seed"], request["inputs"])
            if self.live:
                inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in inputs]
            plan = weighing.weigh(self.model, inputs, torch.device("cuda" if self.live else "cpu"))
        except BaseException as error:
            return self.channel.send({"not_a_plan": f"{type(error).__name__}: {error}"[:500]})
        self.channel.send({"plan": plan})

    def serve(self):
        operations = {
            "problem": self.problem,
            "probe": self.probe,
            "trial": self.trial,
            "draw": self.draw,
            "sample": self.sample,
            "record": self.record,
            "weigh": self.weigh,
        }
        if self.live:
            operations.update(live.operations(self))
        while True:
            request, payload = self.channel.receive()
            operations[request["op"]](request, payload)


def serve(channel, sandbox):
    Reference(channel, sandbox).serve()
