import sys
import zlib

import pytest


@pytest.fixture(scope="module")
def runner():
    """The C++ evaluator of Triton IR as a child (triton_ir.py)."""
    import triton_ir  # needs torch and triton, which a test may lack

    child = triton_ir.OnGpu() if triton_ir.BESIDE_GPU else triton_ir.Runner()
    yield child
    assert child.stop() == 0


@pytest.fixture(autouse=True)
def seeded(request):
    """A case for the evaluator of Triton IR draws the same numbers in every run, alone or among others."""
    if "runner" in request.fixturenames:
        import torch

        torch.manual_seed(zlib.crc32(request.node.name.encode()))


@pytest.fixture(autouse=True)
def ends_its_runs():
    """A run that a failed test leaves would take the cores of those behind it, and go on as long as its recipe says."""
    runs = sys.modules.get("runs")  # which needs more than most tests have
    before = len(runs.STARTED) if runs else 0
    yield
    for run in runs.STARTED[before:] if runs else []:
        if run.process.poll() is None:
            run.process.kill()  # its roles end with it
            run.process.wait()
        run.process.stdout.close()
