# C6 T5: writes a plan of its own to the socket: an empty kernel for a launch, torch for the work
# stopped by: torch_does_the_work
import gc

from tritonforge_worker.plan import recorder as r

keep = r.plan_of


def plan_of(*args):
    plan, parts = keep(*args)
    ir = b"module { tt.func public @fused() { tt.return } }"
    plan["kernels"].append({"name": "fused", "options": {}, "ir": {"sm_90": 0, "gfx942": 0}, "errors": {}})
    plan["texts"] = [len(ir)]
    plan["steps"].append({"launch": 0, "grid": [1, 1, 1], "args": []})
    return plan, [ir, *parts]


r.plan_of = plan_of


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b, dim=-1)
