"""torch.compile's version of a problem's module, in two steps: what the processor does, for seconds, and what the GPU
does. Whoever measures on the GPU has to wait for the second alone."""

import contextlib

import torch
import torch._dynamo


def warm_up():
    """What compiling imports, for seconds."""
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # in its own process: the sandbox counts a process's children
    import torch._inductor.compile_fx


class NotYet(Exception):
    """A graph was to run, and is compiled by now."""


class Compiled:
    def __init__(self, model):
        """Nothing is compiled yet."""
        compile_graph = torch._dynamo.lookup_backend("inductor")
        self.computes = False

        def compile_only(graph, inputs):
            run = compile_graph(graph, inputs)

            def run_where_wanted(*args):
                if not self.computes:
                    raise NotYet
                return run(*args)

            return run_where_wanted

        self.version = torch.compile(model, backend=compile_only)

    def prepare(self, *inputs):
        """Compiles for inputs of these shapes, up to the module's first graph break if it has one; computes nothing."""
        with contextlib.suppress(NotYet):
            self.version(*inputs)

    def __call__(self, *inputs):
        """Computes; what is not compiled yet is compiled on the way."""
        self.computes = True
        return self.version(*inputs)
