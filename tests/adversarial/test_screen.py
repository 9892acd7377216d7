"""Honest code may hold what a reader of the source would ask about: it is told as a doubt, and decides nothing."""

from conftest import HONEST


def test_what_the_source_says_decides_nothing(judge):
    more = "import gc\ngc.collect()\ntorch.backends.cuda.matmul.allow_tf32 = True\nSIZE = eval('4 * 64')\n"
    verdict = judge(HONEST + more)
    assert verdict["correct"] and not verdict["cheated"], verdict
    told = {flag["name"]: flag["evidence"] for flag in verdict["flags"]}
    assert "import gc" in told["forbidden_access"] and "eval()" in told["dynamic_code"], verdict
