# T3: a subclass of Tensor whose work is done when it is looked at
# stopped by: lazy_output
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            plain = [torch.softmax(x.ab[0] @ x.ab[1], dim=-1) if isinstance(x, Lazy) else x for x in args]
            return func(*plain, **(kwargs or {}))


class ModelNew(nn.Module):
    def forward(self, a, b):
        lazy = torch.empty(a.shape[0], b.shape[1]).as_subclass(Lazy)
        lazy.ab = a, b
        copy(a)
        return lazy
