# D1: an fx graph of the reference, run by its interpreter
# stopped by: torch_does_the_work
import torch.fx
class R(nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b, -1)
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = torch.fx.symbolic_trace(R())
    def forward(self, a, b):
        return copy(torch.fx.Interpreter(self.g).run(a, b))
