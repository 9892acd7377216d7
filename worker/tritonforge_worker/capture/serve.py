"""Role capture: runs a problem's code (data from outside) and answers with another solution of it. What it says is a
claim, like any candidate's source."""

import tempfile

from tritonforge_worker import reduce
from tritonforge_worker.capture import inductor, module
from tritonforge_worker.modules import run_source

EXAMPLE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.softmax(self.linear(x), dim=-1).sum(0)


def get_inputs():
    return [torch.rand(4, 8)]
"""


def captured(source, budget, gemm, folder):
    """(the problem within the budget, a solution of it)."""
    smaller = reduce.reduced(source, budget, folder)[0] if budget else source
    return smaller, module.solution(smaller, inductor.generate(run_source(smaller, "problem", folder), gemm))


def serve(channel, sandbox):
    folder = sandbox["folder"]
    request, _ = channel.receive()
    try:
        problem, solution = captured(request["source"], request.get("budget"), request["gemm"], folder)
    except inductor.CannotCapture as reason:
        return channel.send({"refused": str(reason)})
    except BaseException as error:
        return channel.send({"refused": inductor.first_line(error)})
    channel.send({"problem": problem, "solution": solution})


def warm_up():
    """Inductor's imports and its tables take seconds, which children inherit."""
    with tempfile.TemporaryDirectory() as folder:
        captured(EXAMPLE, None, "library", folder)
