"""Returns a tensor subclass that computes when it is looked at."""

from conftest import HEADER, flags


def test_lazy_output(judge):
    verdict = judge(
        HEADER
        + """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.relu(args[0].as_subclass(torch.Tensor)) * 2

class ModelNew(nn.Module):
    def forward(self, x):
        launch(x)
        return x.as_subclass(Lazy)
"""
    )
    assert not verdict["correct"], verdict
    assert "lazy_output" in flags(verdict), verdict
