"""Honest code may hold what a reader of the source would ask about: it is told as a doubt, and decides nothing."""

import pytest

from conftest import HONEST

DOUBTED = {
    "gc": ("import gc\ngc.collect()\ntorch.backends.cuda.matmul.allow_tf32 = True\n", "import gc"),
    "ctypes": ("import ctypes\nWIDTH = ctypes.sizeof(ctypes.c_float)\nassert WIDTH == 4\n", "import ctypes"),
    "mmap": ("from mmap import PAGESIZE\nassert PAGESIZE >= 4096\n", "from mmap import"),
    "code": ("assert launch.__code__.co_argcount == 1\n", ".__code__"),
    "patch": ("triton.ceil_of_quotient = triton.cdiv\n", "triton.ceil_of_quotient = ..."),
}


@pytest.mark.parametrize("name", DOUBTED)
@pytest.mark.parametrize("mode", ["interpret", "plan"])
def test_what_the_source_says_decides_nothing(judge, mode, name):
    more, evidence = DOUBTED[name]
    verdict = judge(HONEST + more + "SIZE = eval('4 * 64')\n", mode=mode)
    assert verdict["correct"] and not verdict["cheated"] and verdict["mode"] == mode, verdict
    told = {flag["name"]: flag["evidence"] for flag in verdict["flags"]}
    assert evidence in told["forbidden_access"] and "eval()" in told["dynamic_code"], verdict
