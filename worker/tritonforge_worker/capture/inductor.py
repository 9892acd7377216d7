"""The code that TorchInductor generates for a module on an H100, without one: all tensors are fake, nothing is compiled
and nothing is run. Inductor's own patterns that call a library's attention are left out, as is its choice of another
memory layout for convolutions: what is wanted are kernels."""

import contextlib
import dataclasses
import warnings
from unittest import mock

import torch
import torch._inductor.config
from torch._dynamo.device_interface import CudaInterface
from torch._inductor.compile_fx import _recursive_post_grad_passes, fake_tensor_prop, view_to_reshape
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses import fake_tensor
from torch.export.graph_signature import OutputKind
from torch.hub import tqdm
from torch.overrides import TorchFunctionMode

from tritonforge_worker import cuda_on_cpu
from tritonforge_worker.modules import set_seed

PLAIN = {
    "alignment_asserts": False,
    "assert_indirect_indexing": False,
    "compile_threads": 1,
    "comprehensive_padding": False,
    "graph_partition": False,
    "layout_optimization": False,
    "nan_asserts": False,
    "scalar_asserts": False,
    "size_asserts": False,
}

# Products of matrices as kernels, too: the first of the configurations that it would time.
TRITON_PRODUCTS = {
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "ATEN",
    "test_configs.max_mm_configs": 1,
}

MOST_OPERATIONS = 2000  # a recurrence that is unrolled, a network of hundreds of layers
tqdm.monitor_interval = 0  # the bars of torch.fx, which nobody sees, start a thread otherwise: no parent may fork then


class CannotCapture(Exception):
    """Why there is no solution, in one line."""


@dataclasses.dataclass
class Generated:
    wrapper: str  # the module that Inductor would run
    model: torch.nn.Module
    inputs: list  # export's InputSpec, one for each argument of the wrapper's call
    layouts: dict  # argument -> (size, stride)
    outputs: object  # the tree that forward returns, of which call returns the leaves


@contextlib.contextmanager
def card():
    """An H100 as far as Inductor asks: no context is made on it."""
    cuda_on_cpu.install()
    properties = staticmethod(torch.cuda.get_device_properties)
    answers = [
        (CudaInterface, "get_compute_capability", staticmethod(lambda device=None: 90)),
        (CudaInterface, "get_device_properties", properties),
        (CudaInterface.Worker, "get_device_properties", properties),
        (CudaInterface, "is_available", staticmethod(lambda: True)),
        # Whoever asks torch itself would then want its driver.
        (torch.cuda, "is_available", lambda: False),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, answer in answers:
            stack.enter_context(mock.patch.object(place, name, answer))
        yield


class Numbers(TorchFunctionMode):
    """A tensor of one number is filled with it: as data it would be sent to the device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.tensor and args and isinstance(args[0], (bool, int, float)):
            return torch.full((), args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def first_line(error):
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}"[:300]


def exported(problem, mode):
    """The module, and its forward as a graph of aten operations without parameters of its own."""
    with mode, torch.device("cuda"):
        set_seed(0)
        init = problem.get_init_inputs() if hasattr(problem, "get_init_inputs") else []
        model = problem.Model(*init)
        inputs = tuple(problem.get_inputs())
    if not isinstance(model, torch.nn.Module):
        raise CannotCapture("Model is not a torch.nn.Module")
    try:
        with Numbers():
            program = torch.export.export(model, inputs, strict=False)
        return model, program.run_decompositions(select_decomp_table())
    except Exception as error:
        raise CannotCapture(f"forward is no graph of tensor operations: {first_line(error)}") from error


def write_back(program):
    """What forward leaves in buffers and inputs becomes a copy at the graph's end, as in torch.compile."""
    graph, signature = program.graph, program.graph_signature
    mutated = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    names = signature.inputs_to_buffers.items()
    of_buffer = {target: name for name, target in names}
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    (output,) = (node for node in graph.nodes if node.op == "output")
    kept = []
    for spec, value in zip(signature.output_specs, output.args[0]):
        if spec.kind not in mutated:
            kept.append(value)
            continue
        target = placeholders[of_buffer.get(spec.target, spec.target)]
        with graph.inserting_before(output):
            copy = graph.call_function(torch.ops.aten.copy_.default, (target, value))
        copy.meta = dict(target.meta)
    output.args = (tuple(kept),)
    program.graph_module.recompile()


def refuse(graph):
    """What no solution that anybody reads would come of."""
    if len(graph.nodes) > MOST_OPERATIONS:
        raise CannotCapture(f"forward is too long: {len(graph.nodes)} operations")
    for node in graph.nodes:
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise CannotCapture(f"forward draws random numbers: {node.target}")


def generate(problem, gemm="library"):
    """`gemm`: "library" or "triton", for products of matrices. Raises CannotCapture, and whatever the problem's code or
    Inductor raises."""
    warnings.simplefilter("ignore")
    options = {**PLAIN, **(TRITON_PRODUCTS if gemm == "triton" else {})}
    mode = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    with card(), torch.no_grad(), torch._inductor.config.patch(options):
        model, program = exported(problem, mode)
        refuse(program.graph)
        write_back(program)
        module = program.graph_module
        arguments = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
        with V.set_fake_mode(mode):
            view_to_reshape(module)
            fake_tensor_prop(module, arguments)
            _recursive_post_grad_passes(module, is_inference=True)
            graph = GraphLowering(module, example_inputs=arguments, is_inference=True)
            with V.set_graph_handler(graph), V.set_debug_handler(DebugContext()):
                graph.run(*arguments)
                wrapper, _ = graph.codegen()
    inputs = program.graph_signature.input_specs
    layouts = {
        spec.arg.name: (tuple(value.shape), value.stride())
        for spec, value in zip(inputs, arguments)
        if isinstance(value, torch.Tensor)
    }
    return Generated(wrapper.value, model, inputs, layouts, program.call_spec.out_spec)
