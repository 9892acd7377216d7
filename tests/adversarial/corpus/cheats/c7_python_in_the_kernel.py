# C7: all work is Python that runs while the kernel is lowered
# stopped by: mismatch
S = {}


def fill(p, _semantic=None, _generator=None):
    if _semantic is None:
        torch.softmax(S["a"] @ S["b"], dim=-1, out=S["y"])
    return p


fill.__triton_builtin__ = True


@triton.jit
def fused_matmul_softmax(a, b, y):
    fill(y)


class ModelNew(nn.Module):
    def forward(self, a, b):
        S.update(a=a, b=b, y=torch.empty(a.shape[0], b.shape[1], device=a.device))
        fused_matmul_softmax[(1,)](a, b, S["y"])
        return S["y"]
