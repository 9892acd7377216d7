"""Says that the problem's code failed, which would excuse the candidate."""

from conftest import HEADER, flags

CLAIM = (
    HEADER
    + """
import json, os, struct
text = json.dumps({'failed': {'kind': '%s', 'text': 'the problem is broken'}, 'kernels': []}).encode()
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack('<IQ', len(text), 0) + text)
    except OSError:
        pass
class ModelNew(nn.Module):
    def forward(self, x):
        return launch(x)
"""
)


def test_a_candidate_cannot_claim_a_fault_of_the_problem(judge):
    for claimed in ("problem_error", "engine_failed", "no_such_fault"):
        verdict = judge(CLAIM % claimed)
        assert not verdict["correct"] and verdict["error_kind"] == "forbidden", verdict
        assert "protocol_forgery" in flags(verdict), verdict


def test_what_its_own_code_may_fail_with_is_taken(judge):
    verdict = judge(CLAIM % "runtime_error")
    assert not verdict["correct"] and verdict["error_kind"] == "runtime_error" and not flags(verdict), verdict
