# T3: a list that computes its items when it is iterated
# stopped by: mismatch
class Lazy(list):
    def __iter__(self):
        return iter([torch.softmax(self.ab[0] @ self.ab[1], dim=-1)])


class ModelNew(nn.Module):
    def forward(self, a, b):
        copy(a)
        lazy = Lazy()
        lazy.ab = a, b
        return lazy
