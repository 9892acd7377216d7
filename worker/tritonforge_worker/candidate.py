"""Role U: runs one candidate. Holds no expected output, no seed of a trial and no verdict.

What is sent before the candidate's module body runs (stage "parsed" and the screen) cannot have been touched by it;
everything later is a claim that the trusted side checks.
"""

import ast
import time

import torch
import triton

from tritonforge_worker import cuda_on_cpu, errors, frontend, interpreter, live, reduce, screen
from tritonforge_worker.modules import run_source, set_seed
from tritonforge_worker.protocol import Encoder, Unsupported, by_key, decode, split_payload, to_tensor
from tritonforge_worker.weights import SPREAD, first_call, matched, redrawn, state_of

_detach, _storage, _parameter = torch.Tensor.detach, torch.Tensor.untyped_storage, torch.nn.Parameter
_tensor = torch.Tensor


class Subclass(Exception):
    pass


def watched():
    """(object, name) whose replacement by candidate code is reported."""
    names = [
        (torch, n) for n in ("empty", "empty_like", "zeros", "allclose", "manual_seed", "equal", "isclose", "compile")
    ]
    names += [
        (torch.Tensor, n)
        for n in ("data_ptr", "detach", "untyped_storage", "cpu", "to", "contiguous", "numpy", "__eq__")
    ]
    names += [(torch.cuda, n) for n in ("synchronize", "Event", "current_stream", "Stream")]
    names += [(time, n) for n in ("time", "perf_counter", "perf_counter_ns", "monotonic")]
    names += [
        (triton.runtime.jit.JITFunction, "run"),
        (triton.runtime.jit.KernelInterface, "__getitem__"),
        (triton, "jit"),
        (interpreter, "execute"),
        (interpreter.Builder, "create_masked_store"),
        (frontend, "lower_to_ir"),
        (torch.nn.Module, "__call__"),
        (torch.nn.functional, "linear"),
        (triton.testing, "do_bench"),
    ]
    return [(obj, name, getattr(obj, name)) for obj, name in names]


def check_types(value, depth=0):
    if isinstance(value, _tensor):
        if type(value) not in (_tensor, _parameter):
            raise Subclass(f"{type(value).__module__}.{type(value).__qualname__}")
    elif isinstance(value, (list, tuple)) and depth < 32:
        for item in value:
            check_types(item, depth + 1)
    elif isinstance(value, dict) and depth < 32:
        for item in value.values():
            check_types(item, depth + 1)


class Candidate:
    def __init__(self, channel, sandbox):
        self.channel, self.folder, self.live = channel, sandbox["folder"], sandbox["gpu"]
        self.device = torch.device("cuda", 0) if self.live else torch.device("cpu")
        self.slots, self.path, self.device_memory = {}, "", sandbox.get("device_memory", 0)
        if self.live:
            self.launches = live.Launches()
        else:
            frontend.install_driver()
            cuda_on_cpu.install()
            self.launches = frontend.Launches(self.compiled, interpreter.execute, sandbox.get("program_limit", 1 << 20))
        self.watched = watched()

    def around(self, poison):
        return live.Around(poison) if self.live else cuda_on_cpu.CudaOnCpu(poison)

    def compiled(self, kernel, payload):
        self.channel.send(kernel, payload)

    def failed(self, error, stage, **more):
        text = errors.describe(error, stage, self.path, self.source)
        self.channel.send(
            {"failed": text, "stage": stage, **self.launches.report(), "tampered": self.tampered(), **more}
        )

    def tampered(self):
        return [
            f"{getattr(obj, '__name__', obj)}.{name}"
            for obj, name, was in self.watched
            if getattr(obj, name, None) is not was
        ]

    def load(self, request, payload):
        self.source, self.path = reduce.rewritten(request["source"], request["sizes"]), self.folder + "/candidate.py"
        try:
            tree = ast.parse(self.source, self.path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if not isinstance(error, SyntaxError):
                error = SyntaxError(f"{type(error).__name__}: {error}")
            return self.failed(error, "parse")
        self.channel.send({"stage": "parsed", "screen": screen.screen(tree)})
        tensors = [
            to_tensor(item, data) for item, data in zip(request["tensors"], split_payload(request["tensors"], payload))
        ]
        init = self.init_of(request, tensors)
        self.launches.compile_targets(request["targets"])
        stage = "import"
        try:
            if self.live:
                live.limit_memory(self.device_memory)
            with self.around(False):
                module = run_source(self.source, "candidate", self.folder)
                if not isinstance(getattr(module, "ModelNew", None), type):
                    raise ImportError("the code defines no class ModelNew")
                self.channel.send({"stage": "imported"})
                stage = "construct"
                set_seed(request["seed"])
                with redrawn(SPREAD):
                    self.model = module.ModelNew(*init)
                if not callable(self.model):
                    raise TypeError("ModelNew is not callable: it must be a torch.nn.Module with forward")
            weights = self.take_weights(request["state"], tensors)
            if isinstance(self.model, torch.nn.Module):
                self.model = self.on_device(self.model)
        except BaseException as error:
            return self.failed(error, stage)
        self.channel.send({"stage": "built", "own_weights": weights})

    def init_of(self, request, tensors):
        return decode(request["init"], tensors)

    def on_device(self, model):
        return model.cuda() if self.live else model

    def take_weights(self, names, tensors):
        """The reference's weights (weights.matched); says which of the candidate's own have no counterpart."""
        own, wanted = state_of(self.model), {name: tensors[index] for name, index in names}
        if not wanted:
            return []
        shapes = [{name: tuple(tensor.shape) for name, tensor in state.items()} for state in (own, wanted)]
        pairs = matched(*shapes)
        with torch.no_grad():
            for name, theirs in pairs.items():
                if not torch.equal(own[name].detach().cpu(), wanted[theirs].to(own[name].dtype)):
                    own[name].copy_(wanted[theirs])
        return [name for name in own if name not in pairs]

    def inputs_of(self, request, payload):
        parts = split_payload(request["tensors"], payload)
        tensors = []
        for index, (item, data) in enumerate(zip(request["tensors"], parts)):
            # The same memory holds new data in the next trial, unless a fresh address is asked for.
            old = None if request.get("fresh") else self.slots.get(index)
            if old is None or old.device.type != "cpu":
                tensor = to_tensor(item, data)
            else:
                tensor = to_tensor(item, data, into=old)
            if self.live:
                moved = tensor.cuda() if old is None or old.shape != tensor.shape or old.dtype != tensor.dtype else old
                moved.copy_(tensor)
                tensor = moved
            self.slots[index] = tensor
            tensors.append(tensor)
        return decode(request["inputs"], tensors), tensors

    @first_call
    def trial(self, request, payload):
        nonce = request["nonce"]
        inputs, tensors = self.inputs_of(request, payload)
        self.launches.begin(bool(request.get("ghost")))
        mode = self.around(True)
        set_seed(request["forward_seed"])
        try:
            with torch.no_grad(), mode:
                outputs = self.model(*inputs)
            if self.live:
                live.synchronize()
            check_types(outputs)
            encoder = Encoder()
            after = [encoder.value(tensor) for tensor in tensors]
            tree = encoder.value(by_key(outputs))
            if (size := sum(map(len, encoder.payload))) > request["max_bytes"]:
                raise Unsupported(f"value of {size >> 20} MiB, at most {request['max_bytes'] >> 20} MiB are read")
            owners = {_storage(t).data_ptr(): i for i, t in enumerate(tensors)}
            self.channel.send(
                {
                    "result": nonce,
                    "outputs": tree,
                    "inputs": len(after),
                    "tensors": encoder.tensors,
                    "aliases": [owners.get(_storage(t).data_ptr(), -1) for t in encoder.objects[len(after) :]],
                    "torch_ops": mode.counts,
                    "tampered": self.tampered(),
                    **self.launches.report(),
                },
                encoder.payload,
            )
        except Subclass as error:
            return self.channel.send({"result": nonce, "subclass": str(error), **self.launches.report()})
        except Unsupported as error:
            return self.failed(TypeError(f"forward returned a {error}"), "forward")
        except BaseException as error:
            return self.failed(error, "forward")

    def serve(self):
        operations = {"load": self.load, "trial": self.trial}
        if self.live:
            operations.update(live.operations(self))
        while True:
            request, payload = self.channel.receive()
            operations[request["op"]](request, payload)


def serve(channel, sandbox):
    Candidate(channel, sandbox).serve()
