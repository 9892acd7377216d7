import pytest


@pytest.fixture(scope="module")
def runner():
    """The C++ evaluator of Triton IR as a child (triton_ir.py)."""
    import triton_ir  # needs torch and triton, which a test may lack

    child = triton_ir.Runner()
    yield child
    assert child.stop() == 0
