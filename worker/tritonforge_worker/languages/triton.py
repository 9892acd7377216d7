"""Triton: the front end runs where the candidate is recorded, the compiler gets IR."""

from tritonforge_worker.lowering import lower as compile  # noqa: F401
from tritonforge_worker.plan.launches import Launches  # noqa: F401


def install():
    pass  # triton.jit is what candidates use
