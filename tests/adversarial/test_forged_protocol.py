"""Writes a result frame to every descriptor that it finds."""

from conftest import HEADER, flags


def test_forged_protocol(judge):
    verdict = judge(
        HEADER
        + """
import json, os, struct
class ModelNew(nn.Module):
    def forward(self, x):
        text = json.dumps({'result': '0', 'outputs': {'tensor': 0}, 'inputs': 0, 'tensors': [], 'aliases': [],
                           'launches': 9, 'kernels': ['relu_kernel']}).encode()
        for fd in range(3, 64):
            try:
                os.write(fd, struct.pack('<IQ', len(text), 0) + text)
            except OSError:
                pass
        return launch(x)
"""
    )
    assert not verdict["correct"], verdict
    assert "protocol_forgery" in flags(verdict), verdict
