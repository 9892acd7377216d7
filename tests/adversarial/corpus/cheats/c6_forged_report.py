# C6 D4: frames by inspect, forged IR and a forged report of launches; no Triton at all
# stopped by: no_kernel_launched
import inspect


class ModelNew(nn.Module):
    def forward(self, a, b):
        for frame in inspect.stack():
            names = inspect.getargvalues(frame.frame).locals
            if "nonce" in names and "request" in names:
                for target in ("sm_90", "gfx942"):
                    names["self"].channel.send({"kernel": "fused", "target": target, "options": {}},
                                               (b"module { tt.func public @k() { tt.return } }",))
                names["self"].launches.report = lambda: {"launches": 1, "kernels": ["fused"], "swallowed": [],
                                                         "programs": 1}
        return torch.softmax(a @ b, dim=-1)
