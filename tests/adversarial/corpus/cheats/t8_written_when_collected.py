# T8: the output is filled in by a finalizer, after forward has returned
# stopped by: mismatch
import weakref


class Work:
    pass


class ModelNew(nn.Module):
    def forward(self, a, b):
        work, y = Work(), torch.empty(a.shape[0], b.shape[1], device=a.device)
        keep = {}
        keep["work"] = work
        weakref.finalize(work, lambda: keep.update(y=y.copy_(torch.softmax(a @ b, dim=-1))))
        copy(y)
        return y
