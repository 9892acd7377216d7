# C7 D1: torch does the work in the hook that an autotuner calls before each launch
# stopped by: torch_does_the_work
def hook(args):
    args["y"].copy_(torch.softmax(args["a"] @ args["b"], -1))


@triton.autotune([triton.Config({"B": 256}, pre_hook=hook), triton.Config({"B": 128}, pre_hook=hook)], key=["n"])
@triton.jit
def nothing(a, b, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(y + i, mask=i < n) * 1.0000001, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0], b.shape[1], device=a.device)
        nothing[lambda meta: (triton.cdiv(y.numel(), meta["B"]),)](a, b, y, y.numel())
        return y
