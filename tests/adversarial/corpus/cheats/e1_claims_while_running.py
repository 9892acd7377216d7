# E1 D4: the same from within forward, by the function that describes an error
# stopped by: forbidden
from tritonforge_worker import errors

errors.describe = lambda *args: {"kind": "internal", "text": "the evaluator failed", "line": 0}


class ModelNew(nn.Module):
    def forward(self, a, b):
        raise RuntimeError("no")
