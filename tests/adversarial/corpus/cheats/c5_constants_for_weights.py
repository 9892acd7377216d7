# C5 O8: hands over a plan that calls the input a weight, and the answer's shape a constant
# stopped by: not a plan
recorder = torch.sys.modules["tritonforge_worker.plan.recorder"]
keep = recorder.plan_of


def plan_of(*args):
    plan, parts = keep(*args)
    for value in plan["values"]:
        if "input" in value:
            value["weight"] = "expected"
            del value["input"]
    return plan, parts


recorder.plan_of = plan_of


class ModelNew(nn.Module):
    def forward(self, a, b):
        return honest(a, b)
