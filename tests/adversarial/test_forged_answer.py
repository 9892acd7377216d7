"""Answers a trial itself, before the worker does: a whole and right answer but for the nonce, which it is not given."""

from conftest import HEADER, flags


def test_forged_answer(judge):
    verdict = judge(
        HEADER
        + """
import json, os, struct
class ModelNew(nn.Module):
    def forward(self, x):
        launch(x)
        y = torch.relu(x) * 2
        tensor = {'dtype': 'float32', 'shape': [4, 100], 'order': [0, 1], 'bytes': 1600}
        text = json.dumps({'result': '0' * 16, 'outputs': {'tensor': 1}, 'inputs': 1, 'tensors': [tensor, tensor],
                           'aliases': [-1], 'launches': 1, 'kernels': ['relu_kernel']}).encode()
        frame = struct.pack('<IQ', len(text), 3200) + text + bytes(x.numpy().data) + bytes(y.numpy().data)
        for fd in range(3, 64):
            try:
                os.write(fd, frame)
            except OSError:
                pass
        return y
"""
    )
    assert not verdict["correct"], verdict
    assert "protocol_forgery" in flags(verdict), verdict
    assert "nonce" in verdict["diagnostics"], verdict
